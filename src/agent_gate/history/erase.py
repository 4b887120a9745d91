"""Erasing: bodies of calls become tombstones, by an entry that says so and a chain that still verifies."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from agent_gate.history.query import unknown_call
from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.files import LedgerFiles
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.reader import open_reader, row_of, rows_of
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entity_change import DropOldEntities
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.model.work import Erase, Work
from agent_gate.ports import Clock, Ids

CALLS_PER_ENTRY_MAX = 500

_OPEN = "SELECT id FROM open_work UNION ALL SELECT call_id FROM pending_requests UNION ALL SELECT call_id FROM outbox"


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone, and what is not: states that erased calls made stay, because later ones stand on them."""

    calls: int
    entries: int
    projects: tuple[str, ...]
    snapshots_kept: int
    entities: int = 0
    """Of a home, as they were last seen."""

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "entries": self.entries,
            "projects": list(self.projects),
            "snapshots_kept": self.snapshots_kept,
            "entities": self.entities,
        }


async def erase_call(ledger: SqliteLedger, call_id: str, *, by: str, clock: Clock, ids: Ids) -> Erased:
    """Erase the bodies, signatures and large result of one settled call.

    Headers stay (who, which tool, when, how it ended), and so do snapshots of the project's state and the plan of
    a run. A call that is still open is refused, one that was erased before changes nothing.
    """
    with closing(open_reader(ledger.files.db)) as reader:
        eraser = _Eraser(ledger, reader, {"by": by}, clock, ids)
        for project in _projects_of(reader, call_id):
            await eraser.erase(project, [call_id])
    await asyncio.to_thread(_empty_log, ledger.files)
    return eraser.erased()


async def retain(ledger: SqliteLedger, days: float, *, by: str, clock: Clock, ids: Ids) -> Erased:
    """Erase every call that ended more than so many days ago, as `erase_call` does; open ones are left alone.

    Entities of a home that were captured before go too; those that are still in the home are captured again.
    """
    if not (math.isfinite(days) and days >= 0):
        raise ToolError(f"`{days}` is no number of days", code=2002, suggestion="use 0 or more")
    until = iso(max(0.0, clock.now() - days * 86_400))
    with closing(open_reader(ledger.files.db)) as reader:
        eraser = _Eraser(ledger, reader, {"by": by, "ended_before": until}, clock, ids)
        for (project,) in list(rows_of(reader, "SELECT project FROM heads ORDER BY project")):
            for calls in _chunks(reader, project, until):
                await eraser.erase(project, calls)
        (entities,) = row_of(reader, "SELECT count(*) FROM ha_entity_snapshot WHERE captured_at < ?", until)
    if entities:
        await ledger.commit(Work(GATE_PROJECT, changes=(DropOldEntities(until),)))
    await asyncio.to_thread(_empty_log, ledger.files)
    return replace(eraser.erased(), entities=entities)


def _projects_of(reader: sqlite3.Connection, call_id: str) -> list[str]:
    """Where the call has something to erase; refuses one that is unknown or open."""
    found = list(rows_of(reader, "SELECT project, kind, body IS NULL FROM entries WHERE call_id = ?", call_id))
    if not found:
        raise unknown_call(call_id)
    is_open = row_of(reader, f"SELECT 1 FROM ({_OPEN}) WHERE id = ?", call_id)  # noqa: S608
    if is_open or not any(kind in ("settled", "judged") for _, kind, _ in found):
        raise ToolError(
            f"call `{call_id}` is still open",
            code=2002,
            suggestion="answer its question or let it end, then erase it",
        )
    return sorted({project for project, _, erased in found if not erased})


def _chunks(reader: sqlite3.Connection, project: str, until: str) -> Iterator[Sequence[str]]:
    """Calls that ended before the moment, in the order of the chain; each look starts where the last one ended."""
    seq = 0
    while True:
        rows = list(
            rows_of(
                reader,
                "SELECT seq, call_id FROM entries WHERE project = ? AND seq > ? AND at < ? AND body IS NOT NULL"  # noqa: S608
                f" AND kind IN ('settled', 'judged') AND call_id IS NOT NULL AND call_id NOT IN ({_OPEN})"
                " ORDER BY seq LIMIT ?",
                project,
                seq,
                until,
                CALLS_PER_ENTRY_MAX,
            )
        )
        if not rows:
            return
        seq = rows[-1][0]
        yield [call_id for _, call_id in rows]


class _Eraser:
    """Erases call by call or in chunks, and counts."""

    def __init__(
        self, ledger: SqliteLedger, reader: sqlite3.Connection, told: dict[str, str], clock: Clock, ids: Ids
    ) -> None:
        self._ledger, self._reader, self._told, self._clock, self._ids = ledger, reader, told, clock, ids
        self._projects: list[str] = []
        self._calls = self._entries = self._snapshots = 0

    async def erase(self, project: str, calls: Sequence[str]) -> None:
        bodies = self._count(project, calls, "body IS NOT NULL")
        snapshots = self._count(project, calls, "kind = 'settled' AND body ->> '$.snapshot_id' IS NOT NULL")
        body = canonical({**self._told, "calls": list(calls), "salt": self._ids.salt()})
        draft = Draft(Kind.ERASED, iso(self._clock.now()), body)
        committed = await self._ledger.commit(Work(project, (draft,), (Erase(tuple(calls)),)))
        assert isinstance(committed, Applied), "an existing project takes an erase entry whatever its status"
        self._calls += len(calls)
        self._entries += bodies
        self._snapshots += snapshots
        if project not in self._projects:
            self._projects.append(project)

    def _count(self, project: str, calls: Sequence[str], those: str) -> int:
        """The plus keeps SQLite from walking the project's whole chain instead of looking the calls up."""
        marks = ", ".join("?" * len(calls))
        (count,) = row_of(
            self._reader,
            f"SELECT count(*) FROM entries WHERE +project = ? AND call_id IN ({marks}) AND {those}",  # noqa: S608
            project,
            *calls,
        )
        return int(count)

    def erased(self) -> Erased:
        return Erased(self._calls, self._entries, tuple(self._projects), self._snapshots)


def _empty_log(files: LedgerFiles) -> None:
    """What was erased from the database must not stay in its write-ahead log."""
    lock = WriterLock(files)
    try:
        with lock.held(), closing(connect(files.db)) as connection:
            # Where somebody reads for longer, the log is overwritten later instead.
            connection.execute("PRAGMA busy_timeout = 1000")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        lock.close()
