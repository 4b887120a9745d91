"""Looking back over a connection of its own, which reads an existing ledger and never creates or migrates one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from agent_gate.ledger.sqlite.connection import UNREADABLE, connect
from agent_gate.ledger.sqlite.deadlines import OPEN, values_of
from agent_gate.ledger.sqlite.migrate import HEADS, is_newer, named, revisions
from agent_gate.ledger.sqlite.open_files import place_of
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS, entry_of
from agent_gate.ledger.sqlite.service_tables import brought, quoted
from agent_gate.model.approval import question_of
from agent_gate.model.entry import Entry
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.ports.examining import StoredTables, Unreadable
from agent_gate.ports.reading import (
    ALL_ENTRIES,
    ChangeRow,
    EntryFilter,
    HeadRow,
    JudgedRow,
    NoLedgerError,
    OpenQuestion,
    RunRow,
    SnapshotRow,
    Totals,
)
from agent_gate.ports.surroundings import Clock

STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's machine: well under a millisecond."""
_NO_LIMIT = -1

_OPEN_IDS = (
    "SELECT id FROM open_work UNION ALL SELECT call_id FROM pending_requests UNION ALL SELECT call_id FROM outbox"
)
_TOTALS = (
    "SELECT (SELECT coalesce(max(id), 0) FROM entries), (SELECT count(*) FROM open_work),"
    " (SELECT count(*) FROM outbox), (SELECT count(*) FROM waiting_results)"
)
_HEAD = "SELECT project, status, created_at, seq, hash, state_version, initial_state FROM heads"
_RUN = (
    "run_id, created_at, completed_at, plan_hash, policy_hash, {documents}, mode, status, total_steps, completed_steps,"
    " denied_steps, failed_steps"
)
_WITH_DOCUMENTS = _RUN.format(documents="plan_json, policy_json")
_WITHOUT = _RUN.format(documents="NULL, NULL")
_JUDGED = (
    "SELECT project, seq, at, run_id, call_id, agent_id, tool, body FROM entries"
    " WHERE kind IN ('held', 'performing', 'settled', 'judged') AND body IS NOT NULL AND instr(body, '\"facts\":')"
)
_BEGAN = "SELECT run_id FROM entries WHERE kind = 'run' AND status = 'running' AND agent_id = ?"


def open_reader(path: Path | str, steps_between_looks: int = STEPS_BETWEEN_LOOKS) -> SqliteReader:
    """A handle that can only read; raises 5001 where there is no ledger of this release's schema."""
    path = Path(path)
    if not path.is_file():
        raise NoLedgerError(f"there is no ledger at `{path}`", suggestion="name one with --db or AGENT_GATE_DB")
    try:
        connection = connect(path, read_only=True)
    except StorageError as error:
        raise NoLedgerError(error.problem.detail, suggestion=error.problem.suggestion) from error
    try:
        _check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return SqliteReader(connection, path, steps_between_looks)


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    try:
        found = revisions(connection)
    except UNREADABLE as error:
        raise NoLedgerError(f"cannot read `{path}`: {error}", suggestion="restore it from a backup") from error
    if not found:
        raise NoLedgerError(f"`{path}` is not a ledger of agent-gate", suggestion="name another file with --db")
    if found != HEADS:
        age, remedy = (
            ("a newer", "upgrade agent-gate") if is_newer(found) else ("an older", "run `agent-gate db upgrade`")
        )
        raise StorageError(
            f"`{path}` was written by a release with {age} schema ({named(found)}, ours is {named(HEADS)})",
            code=5001,
            suggestion=remedy,
        )


class SqliteReader:
    """Fills the port `Reader`."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path | None = None, steps_between_looks: int = STEPS_BETWEEN_LOOKS
    ) -> None:
        self.connection = connection
        self._path, self._place = path, path and place_of(path)
        self._steps_between_looks = steps_between_looks

    @property
    def tables(self) -> StoredTables:
        from agent_gate.ledger.sqlite.tables import SqliteTables  # noqa: PLC0415 -- 5 ms that only verification needs

        return SqliteTables(self.connection)

    def close(self) -> None:
        self.connection.close()

    def is_current(self) -> bool:
        return self._path is not None and self._place is not None and place_of(self._path) == self._place

    def give_up_at(self, moment: float | None) -> None:
        late = None if moment is None else lambda: time.monotonic() > moment
        self.connection.set_progress_handler(late, self._steps_between_looks)

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def entries(
        self, wanted: EntryFilter = ALL_ENTRIES, *, newest_first: bool = False, limit: int | None = None
    ) -> Iterator[Entry]:
        where, values, order = _chosen(wanted, newest_first=newest_first)
        rows = self.rows(
            f"SELECT {ENTRY_COLUMNS} FROM entries {where} ORDER BY {order} LIMIT ?",  # noqa: S608
            *values,
            _NO_LIMIT if limit is None else limit,
        )
        return map(entry_of, rows)

    def count_entries(self, wanted: EntryFilter = ALL_ENTRIES) -> int:
        where, values, _ = _chosen(wanted, newest_first=False)
        return int(self.row(f"SELECT count(*) FROM entries {where}", *values)[0])  # noqa: S608

    def entry_at(self, project: str, seq: int) -> Entry | None:
        row = self.row(f"SELECT {ENTRY_COLUMNS} FROM entries WHERE project = ? AND seq = ?", project, seq)  # noqa: S608
        return entry_of(row) if row else None

    def judged_calls(self, since: str | None = None, run_id: str | None = None) -> Iterator[JudgedRow]:
        sql, values = _JUDGED, list[object]()
        for condition, value in (("at >= ?", since), ("run_id = ?", run_id)):
            if value is not None:
                sql, values = f"{sql} AND {condition}", [*values, value]
        return self.rows(f"{sql} ORDER BY id", *values)

    def runs(
        self,
        *,
        beginning: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
        with_documents: bool = True,
    ) -> Iterator[RunRow]:
        wanted, values = list[str](), list[object]()
        if beginning is not None:
            wanted.append("run_id >= ? AND run_id < ?")
            values += [beginning, beginning + "~"]
        if agent is not None:
            wanted.append(f"run_id IN ({_BEGAN})")
            values.append(agent)
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        rows = self.rows(
            f"SELECT {_WITH_DOCUMENTS if with_documents else _WITHOUT} FROM runs {where}"  # noqa: S608
            " ORDER BY created_at DESC, run_id DESC LIMIT ?",
            *values,
            _NO_LIMIT if limit is None else limit,
        )
        return (RunRow(*row) for row in rows)

    def blob(self, name: str) -> bytes | None:
        row = self.row("SELECT data FROM blobs WHERE hash = ?", name)
        return bytes(row[0]) if row else None

    def blob_beginning(self, hash: str) -> bytes | None:
        row = self.row("SELECT data FROM blobs WHERE hash >= ? AND hash < ?", hash, hash + "~")
        return bytes(row[0]) if row else None

    def heads(self) -> Sequence[HeadRow]:
        return [HeadRow(*row) for row in self.rows(f"{_HEAD} ORDER BY project")]

    def head(self, project: str) -> HeadRow | None:
        row = self.row(f"{_HEAD} WHERE project = ?", project)
        return HeadRow(*row) if row else None

    def snapshot(self, project: str, place: int | str) -> SnapshotRow | None:
        column = "version" if isinstance(place, int) else "snapshot_id"
        row = self.row(
            "SELECT s.version, s.snapshot_id, s.at, s.call_id, b.data FROM snapshots s"  # noqa: S608
            f" LEFT JOIN blobs b ON b.hash = s.document WHERE s.project = ? AND s.{column} = ?",
            project,
            place,
        )
        return SnapshotRow(*row) if row else None

    def changes(self, project: str, limit: int) -> Sequence[ChangeRow]:
        rows = self.rows(
            "SELECT s.version, s.snapshot_id, s.at, s.call_id, e.tool, e.agent_id,"
            " json_array_length(e.body, '$.state_diff')"
            " FROM snapshots s LEFT JOIN entries e"
            " ON e.call_id = s.call_id AND e.project = s.project AND e.kind = 'settled'"
            " WHERE s.project = ? ORDER BY s.version DESC LIMIT ?",
            project,
            limit,
        )
        return [ChangeRow(*row) for row in rows]

    def open_questions(
        self, by: Clock | float, *, agent: str | None = None, limit: int | None = None, brief_chars: int | None = None
    ) -> Iterator[OpenQuestion]:
        where, values = _open(by, agent)
        shown, shortened = "p.question", tuple[object, ...]()
        if brief_chars is not None:
            shown = (
                "json_set(p.question, '$.args', json('{}'),"
                " '$.signatures', json_array(substr(p.question ->> '$.signatures[0]', 1, ?)))"
            )
            shortened = (brief_chars,)
        rows = self.rows(
            f"SELECT {shown}, p.approved_by"  # noqa: S608 -- the order is found without reading the questions
            f" FROM (SELECT call_id, created_at FROM pending_requests WHERE {where} ORDER BY created_at, call_id"
            " LIMIT ?) o JOIN pending_requests p ON p.call_id = o.call_id ORDER BY o.created_at, o.call_id",
            *shortened,
            *values,
            _NO_LIMIT if limit is None else limit,
        )
        return (
            OpenQuestion(question_of(question), tuple(orjson.loads(approved_by)), len(question))
            for question, approved_by in rows
        )

    def count_open_questions(self, clock: Clock, agent: str | None = None) -> int:
        where, values = _open(clock, agent)
        return int(self.row(f"SELECT count(*) FROM pending_requests WHERE {where}", *values)[0])  # noqa: S608

    def open_question_marks(self, clock: Clock) -> Sequence[tuple[str, str, str]]:
        rows = self.rows(
            f"SELECT call_id, nonce, approved_by FROM pending_requests WHERE {OPEN} ORDER BY call_id",  # noqa: S608
            *values_of(clock),
        )
        return list(rows)

    def resolution(self, call_id: str) -> str | None:
        row = self.row("SELECT resolution FROM pending_requests WHERE call_id = ?", call_id)
        return row[0] if row else None

    def is_open(self, id: str) -> bool:
        return self.row(f"SELECT 1 FROM ({_OPEN_IDS}) WHERE id = ?", id) is not None  # noqa: S608

    def ended_calls(self, project: str, before: str, after: int, limit: int) -> Sequence[tuple[int, str]]:
        rows = self.rows(
            "SELECT seq, call_id FROM entries WHERE project = ? AND seq > ? AND at < ? AND body IS NOT NULL"  # noqa: S608
            f" AND kind IN ('settled', 'judged') AND call_id IS NOT NULL AND call_id NOT IN ({_OPEN_IDS})"
            " ORDER BY seq LIMIT ?",
            project,
            after,
            before,
            limit,
        )
        return list(rows)

    def count_erasable(self, project: str, calls: Sequence[str]) -> tuple[int, int]:
        """The plus keeps SQLite from walking the project's whole chain instead of looking the calls up."""
        marks = ", ".join("?" * len(calls))
        bodies, states = self.row(
            "SELECT coalesce(sum(body IS NOT NULL), 0),"  # noqa: S608
            " coalesce(sum(kind = 'settled' AND body ->> '$.snapshot_id' IS NOT NULL), 0)"
            f" FROM entries WHERE +project = ? AND call_id IN ({marks})",
            project,
            *calls,
        )
        return bodies, states

    def totals(self) -> Totals:
        return Totals(*self.row(_TOTALS))

    def contact(self, key: str) -> bytes | None:
        row = self.row("SELECT value FROM contact_info WHERE key = ?", key)
        return bytes(row[0]) if row else None

    def contacts(self) -> Sequence[tuple[str, str]]:
        return list(self.rows("SELECT key, updated_at FROM contact_info ORDER BY key"))

    def count_old_rows(self, before: str) -> int:
        tables = [table for table in brought(self.connection) if table.moment]
        counts = (
            f"SELECT count(*) FROM {quoted(table.name)} WHERE {quoted(table.moment)} < ?"  # noqa: S608
            for table in tables
        )
        return sum(int(self.row(sql, before)[0]) for sql in counts)

    def rows(self, sql: str, *values: object) -> Iterator[Any]:
        """The rows of one question, as they come; what SQLite cannot read is a fault with a code."""
        try:
            yield from self.connection.execute(sql, values)
        except UNREADABLE as error:
            raise Unreadable(error) from error

    def row(self, sql: str, *values: object) -> Any:
        """The first row, or None."""
        return next(self.rows(sql, *values), None)


def _open(by: Clock | float, agent: str | None) -> tuple[str, tuple[object, ...]]:
    where, values = OPEN, tuple[object, ...]()
    if isinstance(by, float | int):
        where, values = "question IS NOT NULL AND resolution IS NULL AND expires_at > ?", (iso(by),)
    else:
        values = values_of(by)
    return (where, values) if agent is None else (f"{where} AND agent_id = ?", (*values, agent))


def _chosen(wanted: EntryFilter, *, newest_first: bool) -> tuple[str, list[object], str]:
    """The condition, its values and the order.

    A plus before a column keeps SQLite from its index: by that of tools, or along one chain, it would have to look at
    all calls of a tool or project to give the last few.
    """
    wanted_ones, values = list[str](), list[object]()
    if wanted.kinds:
        # Literally, or no partial index would serve.
        kinds = ", ".join(f"'{kind.text}'" for kind in wanted.kinds)
        wanted_ones.append(f"kind IN ({kinds})" if len(wanted.kinds) > 1 else f"kind = {kinds}")
    by_chain = _goes_by_chain(wanted, newest_first)
    columns = {
        "project" if by_chain else "+project": wanted.project,
        "run_id": wanted.run_id,
        "call_id": wanted.call_id,
    }
    for column, value in columns.items():
        if value is not None:
            wanted_ones.append(f"{column} = ?")
            values.append(value)
    for column, pattern in (("tool", wanted.tool), ("agent_id", wanted.agent)):
        if pattern is not None:
            is_glob = any(character in pattern for character in "*?[")
            wanted_ones.append(f"+{column} {'GLOB' if is_glob else '='} ?")
            # SQLite negates a set by `^`, shells and our rules by `!`.
            values.append(pattern.replace("[!", "[^") if is_glob else pattern)
    if wanted.status is not None:
        wanted_ones.append("+status = ?")
        values.append(wanted.status)
    if wanted.since is not None:
        wanted_ones.append("at >= ?")
        values.append(wanted.since)
    if wanted.with_body:
        wanted_ones.append("body IS NOT NULL")
    if wanted.holding is not None:
        wanted_ones.append("instr(body, ?)")
        values.append(wanted.holding)
    if wanted.text is not None:
        wanted_ones.append("instr(lower(coalesce(signature, '') || char(10) || coalesce(body, '')), lower(?))")
        values.append(wanted.text)
    if wanted.before is not None:
        wanted_ones.append("id < (SELECT id FROM entries WHERE project = ? AND seq = ?)")
        values.extend(wanted.before)
    where = f"WHERE {' AND '.join(wanted_ones)}" if wanted_ones else ""
    return where, values, f"{'seq' if by_chain else 'id'} {'DESC' if newest_first else 'ASC'}"


def _goes_by_chain(wanted: EntryFilter, newest_first: bool) -> bool:
    """Along the index of one project's chain, where nothing else leads to its entries faster."""
    if wanted.project is None or wanted.run_id is not None or wanted.call_id is not None:
        return False
    return not newest_first or wanted == EntryFilter(project=wanted.project)
