"""The tables row by row, for verification: values come as they are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_gate.ledger.sqlite import backing
from agent_gate.ledger.sqlite.connection import UNREADABLE, readable
from agent_gate.ledger.sqlite.migrate import HEADS, named, revisions
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS
from agent_gate.ledger.sqlite.schema import differences
from agent_gate.ledger.sqlite.scratch import SqliteScratch
from agent_gate.ledger.sqlite.side_tables import GRANT_COLUMNS, grant_of
from agent_gate.model.grant import Grant
from agent_gate.ports.examining import COLUMNS, EntryPlace, Row, Unreadable

_OWN_BODIES = ENTRY_COLUMNS.replace("body,", "CASE WHEN run_id = :run THEN body END,", 1)
_LAST_ID = (1 << 63) - 1
_ORDER: Mapping[str, str] = {
    "counters": " ORDER BY project, scope, bucket",
    "refusals": " ORDER BY project, signature",
    "pending_requests": " WHERE question IS NOT NULL",
}


class SqliteTables:
    """Fills the port `StoredTables`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def schema_findings(self) -> Iterator[str]:
        with readable():
            yield from sorted(differences(self._connection))
            found = revisions(self._connection)
        if found != HEADS:
            yield f"its schema says that it is {named(found)}, and ours is {named(HEADS)}"

    def page_findings(self, limit: int) -> Iterator[str]:
        for (line,) in self._rows(f"PRAGMA integrity_check({limit})"):
            if line != "ok":
                yield f"SQLite finds: {line}"

    def names(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, table: str) -> Iterator[Row]:
        return self._rows(f"SELECT {', '.join(COLUMNS[table])} FROM {table}{_ORDER.get(table, '')}")  # noqa: S608

    def entries(self, run_id: str | None = None) -> Iterator[Row]:
        if run_id is None:
            return self._rows(f"SELECT {ENTRY_COLUMNS} FROM entries ORDER BY id")  # noqa: S608
        return self._rows(
            f"SELECT {_OWN_BODIES} FROM entries"  # noqa: S608
            " WHERE +project IN (SELECT project FROM entries WHERE run_id = :run) ORDER BY id",
            {"run": run_id},
        )

    def entries_between(self, run_id: str | None, project: str, first_id: int, last_id: int | None) -> Iterator[Row]:
        return self._rows(
            f"SELECT {_OWN_BODIES} FROM entries"  # noqa: S608
            " WHERE id BETWEEN :first AND :last AND +project = :project ORDER BY id",
            {"run": run_id, "first": first_id, "last": last_id or _LAST_ID, "project": project},
        )

    def run_places(self, run_id: str) -> tuple[EntryPlace, EntryPlace]:
        first, last = (
            self._row(
                "SELECT id, seq, hash, prev_hash, body FROM entries WHERE run_id = ? AND kind = 'run'"  # noqa: S608
                f" ORDER BY id {order} LIMIT 1",
                (run_id,),
            )
            for order in ("ASC", "DESC")
        )
        assert first is not None, "whoever asks has found the run"
        assert last is not None
        return EntryPlace(*first), EntryPlace(*last)

    def has_run(self, run_id: str) -> bool:
        return self._row("SELECT 1 FROM entries WHERE run_id = ?", (run_id,)) is not None

    def erasures(self) -> Iterator[Row]:
        return self._rows("SELECT project, seq, body FROM entries WHERE kind = 'erased'")

    def hash_at(self, project: str, seq: int) -> object:
        return self._value("SELECT hash FROM entries WHERE project = ? AND seq = ?", (project, seq))

    def body_at(self, project: str, seq: int) -> Any:
        return self._value("SELECT body FROM entries WHERE project = ? AND seq = ?", (project, seq))

    def first_entry(self, call_id: object) -> Row | None:
        return self._row(
            "SELECT id, agent_id, request_id, body FROM entries WHERE call_id = ? ORDER BY id LIMIT 1", (call_id,)
        )

    def last_entry(self, call_id: str, kinds: Sequence[str]) -> Row | None:
        marks = ", ".join("?" * len(kinds))
        return self._row(
            f"SELECT project, seq, body FROM entries WHERE call_id = ? AND kind IN ({marks}) ORDER BY seq DESC",  # noqa: S608
            (call_id, *kinds),
        )

    def last_schema_id(self) -> int:
        found = self._value("SELECT max(id) FROM entries WHERE kind = 'schema'", ())
        return int(found or 0)

    def snapshot(self, snapshot_id: object) -> Row | None:
        return self._row(
            "SELECT project, version, call_id, document FROM snapshots WHERE snapshot_id = ?", (snapshot_id,)
        )

    def is_erased_state(self, project: str, version: int, snapshot_id: object) -> bool:
        row = self._row(
            "SELECT 1 FROM snapshots s JOIN entries e ON e.call_id = s.call_id AND e.project = s.project"
            " WHERE s.snapshot_id = ? AND s.project = ? AND s.version = ? AND e.kind = 'settled' AND e.body IS NULL",
            (snapshot_id, project, version),
        )
        return row is not None

    def blob(self, name: object) -> Row | None:
        return self._row("SELECT data FROM blobs WHERE hash = ?", (name,))

    def has_blob(self, name: object) -> bool:
        return self._row("SELECT 1 FROM blobs WHERE hash = ?", (name,)) is not None

    def grants(self) -> Iterator[tuple[Grant, object]]:
        for *row, revoked_at in self._rows(f"SELECT {GRANT_COLUMNS}, revoked_at FROM grants"):  # noqa: S608
            yield grant_of(row), revoked_at

    def grant_status(self, grant: Grant) -> tuple[int, str | None] | None:
        with readable():
            return backing.status_of(self._connection, grant)

    def is_as_put(self, call_id: str) -> bool:
        with readable():
            return backing.is_as_put(self._connection, call_id)

    def answers(self, call_id: str, nonce: str, required: int) -> tuple[str | None, tuple[str, ...]]:
        with readable():
            return backing.answers(self._connection, call_id, nonce, required)

    def snapshots_with_calls(self) -> Iterator[Row]:
        return self._rows(
            "SELECT s.snapshot_id, s.project, e.at IS s.at, e.body, s.version FROM snapshots s LEFT JOIN entries e"
            " ON e.call_id = s.call_id AND e.kind = 'settled' AND e.project = s.project"
        )

    def results_of_others(self) -> Iterator[Row]:
        return self._rows(
            "SELECT w.call_id, w.agent_id FROM waiting_results w WHERE NOT EXISTS (SELECT 1 FROM entries e"
            " WHERE e.call_id = w.call_id AND e.agent_id = w.agent_id AND e.request_id IS w.request_id"
            " AND e.kind IN ('settled', 'judged'))"
        )

    def messages_about_nothing(self) -> Iterator[Row]:
        return self._rows(
            "SELECT m.call_id FROM question_messages m"
            " WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.call_id = m.call_id AND e.kind = 'held')"
        )

    def scratch(self) -> SqliteScratch:
        return SqliteScratch()

    def _rows(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> Iterator[Any]:
        with readable():
            yield from self._connection.execute(sql, values)

    def _row(self, sql: str, values: Sequence[object]) -> Row | None:
        try:
            found: Row | None = self._connection.execute(sql, values).fetchone()
        except UNREADABLE as error:
            raise Unreadable(error) from error
        return found

    def _value(self, sql: str, values: Sequence[object]) -> Any:
        row = self._row(sql, values)
        return row[0] if row else None
