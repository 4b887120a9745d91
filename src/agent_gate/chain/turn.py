"""The policy that the event loop is running this very moment, for a watchdog that finds it stuck."""

from __future__ import annotations


class Turn:
    """Written by the loop's thread and read by the watchdog's; one name is read whole or not at all."""

    __slots__ = ("policy",)

    def __init__(self) -> None:
        self.policy = ""
        """Empty while no policy has its turn."""


TURN = Turn()
