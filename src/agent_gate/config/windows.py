"""Times of day as people write them, as minutes."""

from __future__ import annotations

from typing import Any

from agent_gate.model.policy import Window

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def minute_of(text: str) -> int:
    """`08:30` is 510; `24:00` is the end of the day."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def window(fields: dict[str, Any]) -> Window:
    """A window; without days it is every day, without hours the whole day."""
    start, end = fields.get("hours", ("00:00", "24:00"))
    return Window(tuple(sorted(map(_DAYS.index, fields.get("days", _DAYS)))), minute_of(start), minute_of(end))
