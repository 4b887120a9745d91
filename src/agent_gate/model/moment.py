"""Moments: epoch seconds inside, ISO 8601 in UTC wherever people or files see them."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache


@lru_cache(maxsize=512)
def iso(at: float) -> str:
    """`2026-11-15T06:19:33.123456Z`: fixed width, so that text order is time order.

    Kept, because an entry and an answer tell the same moments.
    """
    second = int(at)
    microsecond = round((at - second) * 1_000_000)
    if not 0 <= microsecond < 1_000_000:  # rounded up to the next second, or before 1970
        return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="microseconds")[:26] + "Z"
    return f"{_to_the_second(second)}.{microsecond:06}Z"


@lru_cache(maxsize=16)
def _to_the_second(second: int) -> str:
    """Kept, because the same few seconds are written again and again."""
    return datetime.fromtimestamp(second, timezone.utc).isoformat()[:19]


def epoch(text: str) -> float:
    """The moment that an ISO 8601 text names; without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def span(duration_ms: float) -> str:
    """Format how long something took, in the unit that suits it."""
    if duration_ms < 1_000:
        return f"{duration_ms:.1f} ms"
    seconds = duration_ms / 1_000
    return f"{seconds:.1f} s" if seconds < 120 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
