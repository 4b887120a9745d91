"""Bound on the chains that run at once, in all services of one agent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_gate.doors.policy_agent.methods import Busy
from agent_gate.model.bounds import AGENT_QUEUE_WAIT_S


class Running:
    """Places for chains; who finds none free waits a moment in a short queue, first come, first served."""

    def __init__(self, at_once_max: int, wait_s: float = AGENT_QUEUE_WAIT_S) -> None:
        self._max, self._wait_s, self._count = at_once_max, wait_s, 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def one(self, deadline_s: float | None = None) -> AsyncIterator[float | None]:
        """A place while the block runs, and what the wait has left of the deadline; Busy where none becomes free."""
        if self._count < self._max:
            self._count += 1
        elif len(self._queue) >= self._max:
            raise self._busy()
        else:
            deadline_s = await self._waited(deadline_s)
        try:
            yield deadline_s
        finally:
            self._give_back()

    async def _waited(self, deadline_s: float | None) -> float | None:
        loop = asyncio.get_running_loop()
        began, place = loop.time(), loop.create_future()
        wait_s = self._wait_s if deadline_s is None else min(self._wait_s, deadline_s)
        self._queue.append(place)
        try:
            async with asyncio.timeout(wait_s):
                await place
        except BaseException as error:
            self._leave(place)
            if isinstance(error, TimeoutError):
                raise self._busy() from None
            raise
        return None if deadline_s is None else deadline_s - (loop.time() - began)

    def _leave(self, place: asyncio.Future[None]) -> None:
        """A place that came in that very moment goes to the next."""
        if place in self._queue:
            self._queue.remove(place)
        else:
            self._give_back()

    def _give_back(self) -> None:
        """To the first who waits; a place is never free while somebody does."""
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self._count -= 1

    def _busy(self) -> Busy:
        return Busy(f"{self._max} chains run already, and max_concurrent_requests allows no more")
