"""Deadlines of open questions: by the time since the machine started, where that is still the same start of it."""

from __future__ import annotations

from agent_gate.model.moment import iso
from agent_gate.ports.surroundings import Clock

OPEN = "question IS NOT NULL AND resolution IS NULL AND CASE WHEN boot = ? THEN ends_at > ? ELSE expires_at > ? END"


def values_of(clock: Clock) -> tuple[str, float, str]:
    """Return the values for the question marks of `OPEN`."""
    return clock.boot, clock.monotonic(), iso(clock.now())
