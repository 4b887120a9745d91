"""Messages that wait to be brought up to date: only their names wait, so that the newest state is what is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from agent_gate.doors.messengers.backoff import Backoff, Pause
from agent_gate.doors.messengers.bounds import MessengerBounds

Refresh: TypeAlias = Callable[[str], Awaitable[None]]
_BOUNDS = MessengerBounds()
_log = logging.getLogger(__name__)


class Undelivered(Exception):
    """A message did not arrive and is to be tried again; says why in one line, without any secret."""

    retry_after_s: float | None = None
    """Pause that the other side asks for, where it is there and says when to go on."""


class Delivery:
    """One after the other; what fails is tried again for as long as there is something to say."""

    def __init__(self, pause: Pause, bounds: MessengerBounds = _BOUNDS) -> None:
        self._pause, self._bounds, self._backoff = pause, bounds, Backoff()
        self._due: dict[str, None] = {}
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._ending = False
        self.left_out = False
        """True where something was left out: who fills the queue must look through everything once more."""
        self.trouble = ""

    def add(self, call_id: str) -> None:
        if call_id not in self._due and len(self._due) >= self._bounds.waiting_max:
            self.left_out = True
            return
        self._due[call_id] = None
        self._news.set()

    @property
    def is_empty(self) -> bool:
        return not self._due

    async def run(self, refresh: Refresh) -> None:
        while not self._ending:
            while not self._due:
                self._news.clear()
                await self._news.wait()
            call_id = next(iter(self._due))
            del self._due[call_id]
            self._idle.clear()
            try:
                await self._deliver(call_id, refresh)
            finally:
                self._idle.set()

    async def settle(self) -> None:
        """Start nothing more, and let a message that is on its way arrive, so that it is known where it is."""
        self._ending = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.settle_s):
                await self._idle.wait()

    async def _deliver(self, call_id: str, refresh: Refresh) -> None:
        try:
            await refresh(call_id)
        except Undelivered as fault:
            self.add(call_id)
            wait_s = fault.retry_after_s
            if wait_s is None:
                self._report(str(fault))
                wait_s = self._backoff.next_s()
        except Exception as error:
            # Of this question only, or the ledger's: others need not wait.
            self.left_out = True
            _log.error("the message about call %s could not be made: %s", call_id, type(error).__name__)
            return
        else:
            self.trouble = ""
            self._backoff.reset()
            return
        self._idle.set()
        await self._pause(wait_s)

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            _log.warning("messages wait: %s", trouble)
        self.trouble = trouble
