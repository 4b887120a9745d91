"""Moments at which the wall clock was set, as the ledger tells: moments before and after do not compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_gate.model.codec import restore
from agent_gate.model.entry import Kind
from agent_gate.ports.reading import EntryFilter, Reader


@dataclass(frozen=True, slots=True)
class ClockJump:
    at: str
    """By the clock as it was set."""
    seq: int
    direction: str
    """`ahead` or `back`"""
    by_s: float

    def __str__(self) -> str:
        return f"the clock was set {self.direction} by {abs(self.by_s):,.0f} s"

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "seq": self.seq, "direction": self.direction, "by_s": self.by_s}


def clock_jumps(reader: Reader, limit: int, since: str = "") -> list[ClockJump]:
    """The last ones, the newest first."""
    found = reader.entries(EntryFilter(kinds=(Kind.CLOCK,), since=since or None), newest_first=True, limit=limit)
    return [ClockJump(entry.at, entry.seq, entry.status or "", restore(entry.body or b"{}")["by_s"]) for entry in found]
