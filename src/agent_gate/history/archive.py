"""A ledger that nobody need be at work on, for programs that look at one and look after it."""

from __future__ import annotations

from pathlib import Path

from agent_gate.ledger.storage import storage_at
from agent_gate.ports.storage import Storage


def open_archive(place: str | Path) -> Storage:
    """The storage of the ledger at this place; nothing is opened or made yet."""
    return storage_at(place)
