"""Ctrl-C and SIGTERM while a run goes on: the first ends it in good order, the third leaves at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from agent_gate.doors.cli import screen
from agent_gate.doors.codes import Exit

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


class Interrupts:
    """As long as it is entered, a signal cancels the task that entered it.

    Handlers of the interpreter and not of the event loop: they also run while something keeps the loop busy.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._count = 0

    @property
    def happened(self) -> bool:
        return self._count > 0

    def __enter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._count += 1
        if self._count > 2:
            _leave()
        self._loop.call_soon_threadsafe(self._end if self._count == 1 else self._explain)

    def _end(self) -> None:
        assert self._task is not None
        self._tell("ending the step that runs; no other will begin")
        self._task.cancel()

    def _explain(self) -> None:
        self._tell("still ending it; once more leaves at once, and its outcome will be recorded as unknown")


def _leave() -> None:
    """As if killed: sandboxes end with this process, and the next one settles what is open in the ledger."""
    if screen.on_terminal(sys.stdout):
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)
