"""Messages that wait to be brought up to date: only their names wait, so that the newest state is what is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from agent_gate.doors.telegram.backoff import Backoff, Pause
from agent_gate.doors.telegram.faults import Flooded, TelegramFault
from agent_gate.model.limits import TELEGRAM_QUEUE_MAX, TELEGRAM_TIMEOUT_S

Refresh: TypeAlias = Callable[[str], Awaitable[None]]
_log = logging.getLogger(__name__)


class Delivery:
    """One after the other; what fails is tried again for as long as there is something to say."""

    def __init__(self, pause: Pause) -> None:
        self._pause, self._backoff = pause, Backoff()
        self._due: dict[str, None] = {}
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._ending = False
        self.left_out = False
        """Whether something was left out: who fills the queue must look through everything once more."""
        self.trouble = ""

    def add(self, call_id: str) -> None:
        if call_id not in self._due and len(self._due) >= TELEGRAM_QUEUE_MAX:
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
            async with asyncio.timeout(TELEGRAM_TIMEOUT_S / 2):
                await self._idle.wait()

    async def _deliver(self, call_id: str, refresh: Refresh) -> None:
        try:
            await refresh(call_id)
        except Flooded as flood:  # Telegram is there, and says when to go on
            self.add(call_id)
            wait_s = flood.retry_after_s
        except TelegramFault as fault:
            self.add(call_id)
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
