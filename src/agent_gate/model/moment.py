"""Moments: epoch seconds inside, ISO 8601 in UTC wherever people or files see them."""

from __future__ import annotations

from datetime import datetime, timezone


def iso(at: float) -> str:
    """`2026-11-15T06:19:33.123456Z`: fixed width, so that text order is time order."""
    text = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="microseconds")
    return text[:26] + "Z"


def epoch(text: str) -> float:
    """The moment that an ISO 8601 text names; without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def span(duration_ms: float) -> str:
    """How long something took, in the unit that suits it."""
    if duration_ms < 1_000:
        return f"{duration_ms:.1f} ms"
    seconds = duration_ms / 1_000
    return f"{seconds:.1f} s" if seconds < 120 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
