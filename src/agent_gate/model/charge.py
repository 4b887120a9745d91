"""Charges: what a call counts against, which is a rate, a budget or a quota."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Charge:
    """Something counted within a window of buckets; `limit` None only counts."""

    scope: str
    bucket: int
    window: int
    """Number of buckets, this one included, that are added up."""
    amount: float
    limit: float | None
    code: int

    def has_room(self, used: float) -> bool:
        """Three times a tenth fill three tenths, although their sum as floats is a little more."""
        return self.limit is None or round(used + self.amount, 9) <= self.limit
