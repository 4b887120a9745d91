"""Erasing: bodies of calls become tombstones, by an entry that says so and a chain that still verifies."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from agent_gate.history.query import unknown_call
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.model.service_tables import DropOldRows
from agent_gate.model.work import Erase, Work
from agent_gate.ports.ledger import Append
from agent_gate.ports.reading import EntryFilter, Reader
from agent_gate.ports.surroundings import Clock, Ids

CALLS_PER_ENTRY_MAX = 500


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure: states that erased calls made stay, because later ones stand on them."""

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


async def erase_call(ledger: Append, call_id: str, *, by: str, clock: Clock, ids: Ids) -> Erased:
    """Erase the bodies, signatures and large result of one settled call.

    Headers stay (who, which tool, when, how it ended), and so do snapshots of the project's state and the plan of
    a run. A call that is still open is refused, one that was erased before changes nothing.
    """
    with closing(ledger.storage.reader()) as reader:
        eraser = _Eraser(ledger, reader, {"by": by}, clock, ids)
        for project in _projects_of(reader, call_id):
            await eraser.erase(project, [call_id])
    await asyncio.to_thread(ledger.storage.forget_erased)
    return eraser.erased()


async def retain(ledger: Append, days: float, *, by: str, clock: Clock, ids: Ids) -> Erased:
    """Erase every call that ended more than so many days ago, as `erase_call` does; open ones are left alone.

    Rows of services that are from before go too; what is still there, as in a home, is captured again.
    """
    if not (math.isfinite(days) and days >= 0):
        raise ToolError(f"`{days}` is no number of days", code=2002, suggestion="use 0 or more")
    until = iso(max(0.0, clock.now() - days * 86_400))
    with closing(ledger.storage.reader()) as reader:
        eraser = _Eraser(ledger, reader, {"by": by, "ended_before": until}, clock, ids)
        for head in reader.heads():
            for calls in _chunks(reader, head.project, until):
                await eraser.erase(head.project, calls)
        entities = reader.count_old_rows(before=until)
    if entities:
        await ledger.commit(Work(GATE_PROJECT, changes=(DropOldRows(until),)))
    await asyncio.to_thread(ledger.storage.forget_erased)
    return replace(eraser.erased(), entities=entities)


def _projects_of(reader: Reader, call_id: str) -> list[str]:
    """Find where the call has something to erase; refuses one that is unknown or open."""
    found = list(reader.entries(EntryFilter(call_id=call_id)))
    if not found:
        raise unknown_call(call_id)
    if reader.is_open(call_id) or not any(entry.kind in ("settled", "judged") for entry in found):
        raise ToolError(
            f"call `{call_id}` is still open",
            code=2002,
            suggestion="answer its question or let it end, then erase it",
        )
    return sorted({entry.project for entry in found if entry.body is not None})


def _chunks(reader: Reader, project: str, until: str) -> Iterator[Sequence[str]]:
    """Calls that ended before the moment, in the order of the chain; each look starts where the last one ended."""
    seq = 0
    while True:
        rows = reader.ended_calls(project, before=until, after=seq, limit=CALLS_PER_ENTRY_MAX)
        if not rows:
            return
        seq = rows[-1][0]
        yield [call_id for _, call_id in rows]


class _Eraser:
    """Erases call by call or in chunks, and counts."""

    def __init__(self, ledger: Append, reader: Reader, told: dict[str, str], clock: Clock, ids: Ids) -> None:
        self._ledger, self._reader, self._told, self._clock, self._ids = ledger, reader, told, clock, ids
        self._projects: list[str] = []
        self._calls = self._entries = self._snapshots = 0

    async def erase(self, project: str, calls: Sequence[str]) -> None:
        bodies, snapshots = self._reader.count_erasable(project, calls)
        body = canonical({**self._told, "calls": list(calls), "salt": self._ids.salt()})
        draft = Draft(Kind.ERASED, iso(self._clock.now()), body)
        committed = await self._ledger.commit(Work(project, (draft,), (Erase(tuple(calls)),)))
        assert isinstance(committed, Applied), "an existing project takes an erase entry whatever its status"
        self._calls += len(calls)
        self._entries += bodies
        self._snapshots += snapshots
        if project not in self._projects:
            self._projects.append(project)

    def erased(self) -> Erased:
        return Erased(self._calls, self._entries, tuple(self._projects), self._snapshots)
