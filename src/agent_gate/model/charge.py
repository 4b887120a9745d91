"""What a call counts against: rate, budget or quota."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Charge:
    """Something counted within a window of buckets; `limit` None only counts."""

    scope: str
    bucket: int
    window: int
    """How many buckets, this one included, are added up."""
    amount: float
    limit: float | None
    code: int

    def has_room(self, used: float) -> bool:
        """Three times a tenth fill three tenths, although their sum as floats is a little more."""
        return self.limit is None or round(used + self.amount, 9) <= self.limit
