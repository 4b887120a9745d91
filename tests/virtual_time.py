"""An event loop on which time passes only where everything waits for it, so that a busy machine makes nothing late."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

TURN_S = 0.0001
"""What one turn of the loop takes: a task that never waits for anything gets older too."""


class _Impatient(selectors.DefaultSelector):
    """Waits for nothing but what can only come from outside, when no timer is set."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        found = super().select(0)
        self.loop.advance(TURN_S if found else max(timeout, TURN_S))
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For tests without threads and sockets: while those work, no time would pass."""

    def __init__(self) -> None:
        self._virtual_s = 0.0
        selector = _Impatient()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual_s

    def advance(self, seconds: float) -> None:
        """As if the task that runs had kept everybody waiting for so long."""
        self._virtual_s += seconds


BACKEND: tuple[str, dict[str, Any]] = "asyncio", {"loop_factory": VirtualTimeLoop}
"""What a module's fixture `anyio_backend` returns to have its tests run on such a loop."""
