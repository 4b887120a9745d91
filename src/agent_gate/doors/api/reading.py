"""Questions about the past: a few at once, each in a thread, none for long."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from agent_gate.doors.context import ServerContext
from agent_gate.model.errors import StorageError
from agent_gate.model.limits import READ_S, READS_AT_ONCE_MAX, READS_WAITING_MAX

Answer = TypeVar("Answer")

_STEPS_BETWEEN_LOOKS = 10_000
"""Of SQLite's machine: well under a millisecond."""


class Reading:
    """Threads that every caller of one server shares, so that none can take all of them."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._turns = asyncio.Semaphore(READS_AT_ONCE_MAX)
        self._under_way = 0

    async def ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        if self._under_way >= READS_AT_ONCE_MAX + READS_WAITING_MAX:
            raise StorageError("too many ask about the past at once", code=5003, suggestion="ask again later")
        self._under_way += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(self._answer, question)
        finally:
            self._under_way -= 1

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        ends_at = time.monotonic() + READ_S
        with self._context.reader() as reader:
            reader.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS_BETWEEN_LOOKS)
            try:
                return question(reader)
            except StorageError:
                if time.monotonic() <= ends_at:
                    raise
                raise StorageError(
                    f"the answer took longer than {READ_S:.0f} s", code=5003, suggestion="ask for less, or since later"
                ) from None
