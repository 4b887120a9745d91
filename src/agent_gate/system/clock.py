"""The world's clock and the ids made from it."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from string import ascii_letters, digits

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
DRAW_BYTES, DRAWS = 22, 256
_FIVE_BITS = bytes(ALPHABET[byte & 31].encode()[0] for byte in range(256))
"""A character for each byte, by its lower five bits."""
_SIX_BITS = bytes((ascii_letters + digits + "-_").encode()[byte & 63] for byte in range(256))


class SystemClock:
    now = staticmethod(time.time)

    @staticmethod
    def monotonic() -> float:
        """Also counts the time that a machine slept, and is the same for all processes of one start of it."""
        return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()

    @property
    def boot(self) -> str:
        return _boot()


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)


@lru_cache(maxsize=1)
def _boot() -> str:
    """With the time namespace, which may count from elsewhere; where there is neither, each process for itself."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{started}.{os.stat('/proc/self/ns/time').st_ino}"
    except OSError:
        return f"process-{os.getpid()}-{os.urandom(8).hex()}"


class RandomIds:
    """ULIDs: 48 bits of milliseconds and 80 random bits, in Crockford's base 32."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._now = (clock or SystemClock()).now

    def new(self) -> str:
        milliseconds = int(self._now() * 1000)
        return (
            _first_eight(milliseconds >> 10)
            + _LAST_TWO[milliseconds & 1023]
            + _draw()[:16].translate(_FIVE_BITS).decode()
        )

    def salt(self) -> str:
        """132 random bits."""
        return _draw().translate(_SIX_BITS).decode()


@lru_cache(maxsize=4)
def _first_eight(value: int) -> str:
    """Of the ten characters for the time; kept, because they stay the same for a second."""
    return "".join([ALPHABET[value >> shift & 31] for shift in range(35, -1, -5)])


_LAST_TWO = [first + second for first in ALPHABET for second in ALPHABET]


_drawn: list[bytes] = []
"""Random bytes fetched in bulk: each system call gives up the interpreter lock, and waits to get it back."""


def _draw() -> bytes:
    """Bytes that nobody else gets."""
    try:
        return _drawn.pop()
    except IndexError:
        pool = os.urandom(DRAW_BYTES * DRAWS)
        draws = [pool[begin : begin + DRAW_BYTES] for begin in range(0, len(pool), DRAW_BYTES)]
        draw = draws.pop()
        _drawn.extend(draws)
        return draw


os.register_at_fork(after_in_child=_drawn.clear)
