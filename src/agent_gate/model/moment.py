"""Moments: epoch seconds inside, ISO 8601 in UTC wherever people or files see them."""

from __future__ import annotations

from datetime import datetime, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def iso(at: float) -> str:
    """`2026-11-15T06:19:33.123456Z`: fixed width, so that text order is time order."""
    text = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="microseconds")
    return text[:26] + "Z"


def epoch(text: str) -> float:
    """The moment that an ISO 8601 text names; without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH).total_seconds()
