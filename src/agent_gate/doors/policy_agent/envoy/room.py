"""Room for the bodies that policies wait for, in all exchanges together."""

from __future__ import annotations


class Room:
    def __init__(self, bytes_max: int) -> None:
        self.free = bytes_max

    def take(self, size: int) -> bool:
        """False where there is not so much left."""
        if size > self.free:
            return False
        self.free -= size
        return True

    def give_back(self, size: int) -> None:
        self.free += size
