"""Places that all agents share: whoever takes some leaves room for those who come after.

An agent may hold half of what the others leave: alone 8 of 16 places, then the next one 4, and so on. What it wants
beyond that waits for a while, and a place that becomes free goes to the agent that holds the fewest.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from agent_gate.model.bounds import PLACES_WAITED_FOR_MAX
from agent_gate.model.errors import ToolError

NOBODY: Final = ""
"""The gate's own work: it has no share, and takes what is free."""
ON_BEHALF_OF: Final[ContextVar[str]] = ContextVar("agent on whose behalf this task works", default=NOBODY)
"""Set where a call is bound; what the call takes afterwards, it takes in that agent's name."""


class Places:
    """So many at once, of all agents together. Threads may give them back."""

    def __init__(self, most: int, what: str, wait_s: float) -> None:
        """`what` completes "too many … already"; who has waited so long for a place is refused."""
        self._most, self._what, self._wait_s = most, what, wait_s
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[Future[None]]] = {}

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        holder = await self.take()
        try:
            yield
        finally:
            self.give_back(holder)

    async def take(self) -> str:
        """The name to give the place back by; ToolError 2006 where none becomes free in time."""
        agent = ON_BEHALF_OF.get()
        ticket = self._ticket(agent)
        if ticket is None:
            return agent
        try:
            async with asyncio.timeout(self._wait_s):
                await asyncio.wrap_future(ticket)
        except BaseException as error:
            self._leave_queue(agent, ticket)
            if isinstance(error, TimeoutError):
                raise self._refusal() from None
            raise
        return agent

    def give_back(self, holder: str) -> None:
        with self._lock:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]
            self._serve()

    def _ticket(self, agent: str) -> Future[None] | None:
        """None where a place was free; else what becomes done when one is."""
        with self._lock:
            if agent not in self._waiting and self._may_take(agent):
                self._held[agent] += 1
                return None
            queue = self._waiting.setdefault(agent, deque())
            if len(queue) >= PLACES_WAITED_FOR_MAX:
                raise self._refusal()
            ticket: Future[None] = Future()
            queue.append(ticket)
            return ticket

    def _may_take(self, agent: str) -> bool:
        held, all_held = self._held[agent], self._held.total()
        left_by_others = self._most - (all_held - held)
        return all_held < self._most and (agent == NOBODY or held < (left_by_others + 1) // 2)

    def _serve(self) -> None:
        """Hand free places to those who wait; in the order of their names' coming among agents that hold as many."""
        while entitled := [agent for agent in self._waiting if self._may_take(agent)]:
            agent = min(entitled, key=self._held.__getitem__)
            ticket = self._waiting[agent].popleft()
            queue = self._waiting.pop(agent)
            if queue:
                self._waiting[agent] = queue
            if ticket.set_running_or_notify_cancel():
                self._held[agent] += 1
                ticket.set_result(None)

    def _leave_queue(self, agent: str, ticket: Future[None]) -> None:
        """A place that came in that very moment goes to the next."""
        if not ticket.cancel():
            self.give_back(agent)
            return
        with self._lock:
            queue = self._waiting.get(agent)
            if queue and ticket in queue:
                queue.remove(ticket)
            if queue is not None and not queue:
                del self._waiting[agent]

    def _refusal(self) -> ToolError:
        return ToolError(f"too many {self._what} already", code=2006, suggestion="try again later")
