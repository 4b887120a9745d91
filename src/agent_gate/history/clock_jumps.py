"""When the wall clock was set, as the ledger tells: moments before and after do not compare."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from agent_gate.ledger.sqlite.reader import row_of, rows_of
from agent_gate.model.codec import restore


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


def clock_jumps(reader: sqlite3.Connection, limit: int, since: str = "") -> list[ClockJump]:
    """The last ones, the newest first."""
    rows = rows_of(
        reader,
        "SELECT at, seq, status, body FROM entries WHERE kind = 'clock' AND at >= ? ORDER BY id DESC LIMIT ?",
        since,
        limit,
    )
    return [ClockJump(at, seq, status, restore(body.encode())["by_s"]) for at, seq, status, body in rows]


def count_clock_jumps(reader: sqlite3.Connection) -> int:
    return int(row_of(reader, "SELECT count(*) FROM entries WHERE kind = 'clock'")[0])
