"""A ledger for programs that only look back; `archive.py` is for those that also look after one."""

from __future__ import annotations

from pathlib import Path

from agent_gate.ledger.reader import reader_at
from agent_gate.ports.reading import Reader


def open_reader(place: str | Path) -> Reader:
    """A reader of the ledger at this place; raises 5001 where there is none of this release's schema."""
    return reader_at(place)
