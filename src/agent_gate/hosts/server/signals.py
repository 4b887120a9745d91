"""Signals of a server: the first ends it in good order, the second at once, SIGHUP reloads the policy."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Handlers of the interpreter and not of the event loop: the second signal also ends a loop that is kept busy."""

    def __init__(self, tell: Callable[[], None], reload: Callable[[], None]) -> None:
        self._tell, self._reload = tell, reload
        self.end = asyncio.Event()
        self._count = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._before = {number: signal.signal(number, self._on_end) for number in _ENDING}
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_reload)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_end(self, number: int, _: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            # As if killed: sandboxes end with this process, and the next one settles what is open in the ledger.
            os._exit(128 + number)
        self._loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        self._tell()
        self.end.set()

    def _on_reload(self, _: int, __: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._reload)
