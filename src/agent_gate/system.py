"""The world's clock and the ids made from it."""

from __future__ import annotations

import os
import threading
import time
from functools import lru_cache
from string import ascii_letters, digits

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
POOL_BYTES = 65_536
_FIVE_BITS = bytes(ALPHABET[byte & 31].encode()[0] for byte in range(256))
"""A character for each byte, by its lower five bits."""
_SIX_BITS = bytes((ascii_letters + digits + "-_").encode()[byte & 63] for byte in range(256))


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class RandomIds:
    """ULIDs: 48 bits of milliseconds and 80 random bits, in Crockford's base 32."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._now = (clock or SystemClock()).now

    def new(self) -> str:
        milliseconds = int(self._now() * 1000)
        return (
            _first_eight(milliseconds >> 10)
            + _LAST_TWO[milliseconds & 1023]
            + _random_bytes(16).translate(_FIVE_BITS).decode()
        )

    def salt(self) -> str:
        """132 random bits."""
        return _random_bytes(22).translate(_SIX_BITS).decode()


@lru_cache(maxsize=4)
def _first_eight(value: int) -> str:
    """Of the ten characters for the time; kept, because they stay the same for a second."""
    return "".join([ALPHABET[value >> shift & 31] for shift in range(35, -1, -5)])


_LAST_TWO = [first + second for first in ALPHABET for second in ALPHABET]


class _Pool(threading.local):
    """Random bytes fetched in bulk: each system call gives up the interpreter lock, and waits to get it back."""

    taken, unused = 0, b""


_pool = _Pool()


def _random_bytes(count: int) -> bytes:
    pool = _pool
    begin = pool.taken
    pool.taken = end = begin + count
    if end > len(pool.unused):
        pool.unused = os.urandom(POOL_BYTES)
        begin, pool.taken = 0, count
    return pool.unused[begin : begin + count]


def _forget() -> None:
    _pool.taken, _pool.unused = 0, b""


os.register_at_fork(after_in_child=_forget)
