"""Picks the backend of a ledger."""

from __future__ import annotations

from pathlib import Path

from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.ports.storage import Storage


def storage_at(place: str | Path) -> Storage:
    """The storage of the ledger at this place; another backend is one more line here, and one in `reader.py`."""
    return SqliteStorage(place)
