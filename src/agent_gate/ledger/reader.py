"""Picks the backend of a ledger for whoever only looks back.

Apart from `storage.py`, which also loads what writes, locks and signs: that takes longer than most looks back in all.
"""

from __future__ import annotations

from pathlib import Path

from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ports.reading import Reader


def reader_at(place: str | Path) -> Reader:
    """A reader of the ledger at this place; another backend is one more line here, and one in `storage.py`."""
    return open_reader(place)
