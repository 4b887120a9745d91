"""Bounds on questions about the past over HTTP, so that none can take all that a server reads by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from agent_gate.doors.context import ServerContext
from agent_gate.history.readings import TookTooLongError
from agent_gate.model.bounds import READS_AT_ONCE_MAX
from agent_gate.model.errors import StorageError
from agent_gate.ports.reading import Reader

Answer = TypeVar("Answer")


class Reading:
    """Shared by every caller of one server."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._turns = asyncio.Semaphore(READS_AT_ONCE_MAX)
        self._under_way = 0

    async def ask(self, question: Callable[[Reader], Answer]) -> Answer:
        if self._under_way >= READS_AT_ONCE_MAX + self._context.bounds.reads_waiting_max:
            raise StorageError("too many ask about the past at once", code=5003, suggestion="ask again later")
        self._under_way += 1
        try:
            async with self._turns:
                return await self._context.readings.ask(question, self._context.bounds.read_s)
        except TookTooLongError as error:
            raise StorageError(
                error.problem.detail, code=error.code, suggestion="ask for less, or since later"
            ) from None
        finally:
            self._under_way -= 1
