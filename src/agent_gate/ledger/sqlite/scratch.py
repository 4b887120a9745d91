"""Tables in a temporary database of SQLite's, which is on the disk where it grows beyond the memory it may take."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agent_gate.ledger.sqlite.changes.counters import count, forget_quotas
from agent_gate.ledger.sqlite.connection import UNREADABLE, readable
from agent_gate.ports.examining import Row, Unreadable

_TABLES = (
    "CREATE TABLE erased (project, call_id, seq, PRIMARY KEY (project, call_id)) WITHOUT ROWID;"
    "CREATE TABLE counters (project, scope, bucket, amount, PRIMARY KEY (project, scope, bucket)) WITHOUT ROWID;"
    "CREATE TABLE refusals (project, signature, at, call_id, PRIMARY KEY (project, signature)) WITHOUT ROWID;"
)
_IN_ORDER = {
    "counters": "SELECT * FROM counters ORDER BY project, scope, bucket",
    "refusals": "SELECT * FROM refusals ORDER BY project, signature",
}


class SqliteScratch:
    """Fills the port `Scratch`."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.executescript(_TABLES)
        self._connection.execute("BEGIN")

    def close(self) -> None:
        self._connection.close()

    def note_erased(self, project: object, seq: object, calls: Iterable[object]) -> None:
        with readable():
            self._connection.executemany(
                "INSERT INTO erased VALUES (?, ?, ?)"
                " ON CONFLICT (project, call_id) DO UPDATE SET seq = max(seq, excluded.seq)",
                ((project, call_id, seq) for call_id in calls),
            )

    def is_erased_after(self, project: str, call_id: str, seq: int) -> bool:
        with readable():
            found = self._connection.execute(
                "SELECT 1 FROM erased WHERE project = ? AND call_id = ? AND seq > ?", (project, call_id, seq)
            )
            return found.fetchone() is not None

    def count(self, project: str, scope: str, bucket: int, amount: float, window: int) -> None:
        try:
            count(self._connection, project, scope, bucket, amount, window)
        except UNREADABLE as error:
            raise Unreadable(error) from error

    def forget_quotas(self, project: str, run_id: str) -> None:
        with readable():
            forget_quotas(self._connection, project, run_id)

    def begin_counters(self, project: str | None, rows: Sequence[Sequence[Any]]) -> None:
        wanted, values = ("", ()) if project is None else (" WHERE project = ?", (project,))
        with readable():
            self._connection.execute(f"DELETE FROM counters{wanted}", values)  # noqa: S608
            self._connection.executemany("INSERT INTO counters VALUES (?, ?, ?, ?)", rows)

    def note_refusals(self, rows: Iterable[Row]) -> None:
        with readable():
            self._connection.executemany(
                "INSERT INTO refusals VALUES (?, ?, ?, ?) ON CONFLICT (project, signature)"
                " DO UPDATE SET at = excluded.at, call_id = excluded.call_id",
                rows,
            )

    def rows(self, table: str) -> Iterator[Row]:
        return self._connection.execute(_IN_ORDER[table])
