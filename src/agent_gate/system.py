"""The world's clock and the ids made from it."""

from __future__ import annotations

import os
import time
from base64 import urlsafe_b64encode

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """ULIDs: 48 bits of milliseconds and 80 random bits, in Crockford's base 32."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._now = (clock or SystemClock()).now

    def new(self) -> str:
        value = int(self._now() * 1000) << 80 | int.from_bytes(os.urandom(10))
        return "".join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])

    def salt(self) -> str:
        return urlsafe_b64encode(os.urandom(16))[:22].decode()
