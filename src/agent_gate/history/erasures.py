"""Which calls the erase entries of a ledger name: a tombstone counts only where one does."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from agent_gate.history.findings import ODD_VALUES
from agent_gate.model.codec import restore


class Erasures:
    """Kept in a temporary database of SQLite's, so that millions of erased calls do not fill the memory."""

    def __init__(self, ledger: sqlite3.Connection) -> None:
        self._named: sqlite3.Connection | None = None
        for project, seq, body in ledger.execute("SELECT project, seq, body FROM entries WHERE kind = 'erased'"):
            self._note(project, seq, body)

    def cover(self, project: str, call_id: str, seq: int) -> bool:
        """Whether an erase entry after this place in the chain names the call."""
        if self._named is None:
            return False
        found = self._named.execute(
            "SELECT 1 FROM named WHERE project = ? AND call_id = ? AND seq > ?", (project, call_id, seq)
        )
        return found.fetchone() is not None

    def close(self) -> None:
        if self._named is not None:
            self._named.close()

    def _note(self, project: object, seq: object, body: Any) -> None:
        """What is malformed here names nothing; the walk along the chain says what is wrong with it."""
        if self._named is None:
            self._named = _empty_table()
        with suppress(*ODD_VALUES):
            self._named.executemany(
                "INSERT INTO named VALUES (?, ?, ?)"
                " ON CONFLICT (project, call_id) DO UPDATE SET seq = max(seq, excluded.seq)",
                ((project, call_id, seq) for call_id in restore(body.encode())["calls"]),
            )


def _empty_table() -> sqlite3.Connection:
    connection = sqlite3.connect("", isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("CREATE TABLE named (project, call_id, seq, PRIMARY KEY (project, call_id)) WITHOUT ROWID")
    connection.execute("BEGIN")
    return connection
