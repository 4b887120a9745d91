"""Time, ids and secrets, which the core takes from outside."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since the machine started, also while it slept: nobody can set them."""
        ...

    @property
    def boot(self) -> str:
        """The start of the machine that they count from."""
        ...


class Ids(Protocol):
    def new(self) -> str:
        """A ULID: unique, and sorted by time."""
        ...

    def salt(self) -> str:
        """Sixteen random bytes as text."""
        ...


class Secrets(Protocol):
    def keyed_hash(self, value: bytes) -> str:
        """Stands for a secret in the record: equal for equal values, useless without the key."""
        ...
