"""File descriptors that outlive whoever opened them: the last user to leave closes."""

from __future__ import annotations

import os
import threading


class Descriptor:
    """One open descriptor, held by whoever made it and by the threads that still use it.

    Closing it under a thread's feet would let the number come to mean another file.
    """

    __slots__ = ("_lock", "_users", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._users = 1
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                raise ValueError("the descriptor is closed")
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            if self._users == 0:
                return
            self._users -= 1
            if self._users:
                return
        os.close(self.number)

    def __del__(self) -> None:
        """Close what a thread opened for a call that nobody waits for any more."""
        if self._users:
            self._users = 0
            os.close(self.number)


def real_name(number: int) -> str:
    """The name that the kernel has for what a descriptor stands for, as it is now; not UTF-8 shows as surrogates."""
    return os.readlink(f"/proc/self/fd/{number}")
