"""Calls that the erase entries of a ledger name: a tombstone counts only where one does."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agent_gate.history.findings import ODD_VALUES
from agent_gate.model.codec import restore
from agent_gate.ports.examining import Scratch, StoredTables


class Erasures:
    """Kept in a scratch of the storage's, made where there is something to keep."""

    def __init__(self, tables: StoredTables) -> None:
        self._tables = tables
        self._named: Scratch | None = None
        for project, seq, body in tables.erasures():
            self._note(project, seq, body)

    def cover(self, project: str, call_id: str, seq: int) -> bool:
        """Tell whether an erase entry after this place in the chain names the call."""
        return self._named is not None and self._named.is_erased_after(project, call_id, seq)

    def close(self) -> None:
        if self._named is not None:
            self._named.close()

    def _note(self, project: object, seq: object, body: Any) -> None:
        """Note a name; what is malformed here names nothing: the walk along the chain says what is wrong with it."""
        if self._named is None:
            self._named = self._tables.scratch()
        with suppress(*ODD_VALUES):
            self._named.note_erased(project, seq, restore(body.encode())["calls"])
