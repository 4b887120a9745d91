"""Notices that the wall clock was set: it moved otherwise than the time since the machine started."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from agent_gate.ledger.sqlite.side_tables import known_offset
from agent_gate.model.bounds import CLOCK_JUMP_MIN_S
from agent_gate.model.codec import canonical
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.moment import epoch, iso
from agent_gate.model.work import NoteClock, Work
from agent_gate.ports.surroundings import Clock

MEASUREMENTS_MAX = 3
"""A process that is stopped between two looks at the clocks would see a jump that was none."""
MEASURED_WITHIN_S = 0.5


class ClockWatch:
    """One for each process; which of several tells of a jump is decided in the ledger."""

    def __init__(self, clock: Clock, salt: Callable[[], str]) -> None:
        self._clock, self._salt = clock, salt
        self._offset_s = self._measured()

    def since_last_time(self, connection: sqlite3.Connection) -> list[Work]:
        """Find what a ledger that is opened does not know yet: jumps while nobody looked."""
        known_s = known_offset(connection, self._clock.boot)
        if known_s is None:
            return [self._noted(self._behind_the_record_s(connection))]
        jump_s = self._offset_s - known_s
        return [self._noted(jump_s)] if abs(jump_s) >= CLOCK_JUMP_MIN_S else []

    def _behind_the_record_s(self, connection: sqlite3.Connection) -> float:
        """After another start of the machine, only a clock that went back can be told: by the last entry."""
        row = connection.execute("SELECT at FROM entries ORDER BY id DESC LIMIT 1").fetchone()
        return min(0.0, self._clock.now() - epoch(row[0])) if row else 0.0

    def look(self) -> Work | None:
        """Return what is to be written, where the clock was set since the last look."""
        if abs(self._clock.now() - self._clock.monotonic() - self._offset_s) < CLOCK_JUMP_MIN_S:
            return None
        before_s, self._offset_s = self._offset_s, self._measured()
        jump_s = self._offset_s - before_s
        return self._noted(jump_s) if abs(jump_s) >= CLOCK_JUMP_MIN_S else None

    def _measured(self) -> float:
        offset_s = 0.0
        for _ in range(MEASUREMENTS_MAX):
            begun = self._clock.monotonic()
            offset_s = self._clock.now() - begun
            if self._clock.monotonic() - begun < MEASURED_WITHIN_S:
                break
        return offset_s

    def _noted(self, jump_s: float) -> Work:
        note = NoteClock(self._clock.boot, self._offset_s)
        if abs(jump_s) < CLOCK_JUMP_MIN_S:
            return Work(GATE_PROJECT, changes=(note,))
        body = {"boot": self._clock.boot, "by_s": round(jump_s, 3), "salt": self._salt()}
        status = "ahead" if jump_s > 0 else "back"
        draft = Draft(Kind.CLOCK, iso(self._clock.now()), canonical(body), status=status)
        return Work(GATE_PROJECT, (draft,), (note,))
