"""Signals of a process: the first ends it in good order, the second at once, SIGHUP loads the policy again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, Self

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Handlers of the interpreter and not of the event loop: the second signal also ends a loop that is kept busy."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.ended = asyncio.Event()
        self._count = 0
        self._before: dict[int, Any] = {}
        self._reloads: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def reload_by(self, reload: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this at each SIGHUP from now on; where it is never said, SIGHUP stays what the system has it be."""
        self._reload = reload
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_reload)

    def _on_reload(self, _: int, __: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._begin_to_reload)

    def _begin_to_reload(self) -> None:
        task = asyncio.create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def _end(self, number: int, _: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            # As if killed: sandboxes end with this process, and the next one settles what is open in the ledger.
            os._exit(128 + number)
        self._loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        self._on_end()
        self.ended.set()
