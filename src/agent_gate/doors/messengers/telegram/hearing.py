"""Listens for what people do in Telegram, and hands it on; what was handed on is not heard again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from agent_gate.doors.messengers.backoff import Backoff, Pause
from agent_gate.doors.messengers.telegram.faults import Flooded, TelegramFault
from agent_gate.doors.messengers.telegram.updates import Command, Press, Update
from agent_gate.model.bounds import TELEGRAM_POLL_S

_log = logging.getLogger(__name__)


class Source(Protocol):
    async def introduce(self) -> None: ...

    async def updates(self, offset: int | None, wait_s: int) -> list[Update]: ...


class Hearing:
    def __init__(self, source: Source, handle: Callable[[Press | Command], Awaitable[None]], pause: Pause) -> None:
        self._source, self._handle, self._pause, self._backoff = source, handle, pause, Backoff()
        self.trouble = "not connected yet"
        self._introduced = False
        self._offset: int | None = None

    async def run(self) -> None:
        while True:
            try:
                await self._listen()
            except TelegramFault as fault:
                self._report(str(fault))
                wait_s = fault.retry_after_s if isinstance(fault, Flooded) else self._backoff.next_s()
                await self._pause(wait_s)
            except Exception as error:
                # Whatever it is, people's answers go on being heard.
                self._report(f"{type(error).__name__} while listening")
                await self._pause(self._backoff.next_s())

    async def _listen(self) -> None:
        if not self._introduced:
            await self._source.introduce()
            self._introduced = True
        # After trouble the first look does not wait for news: that it succeeds is news enough.
        updates = await self._source.updates(self._offset, 0 if self.trouble else TELEGRAM_POLL_S)
        self.trouble = ""
        self._backoff.reset()
        for number, heard in updates:
            if self._offset is not None and number < self._offset:
                continue
            self._offset = number + 1
            if heard is not None:
                await self._hand_on(heard)

    async def _hand_on(self, heard: Press | Command) -> None:
        try:
            await self._handle(heard)
        except Exception as error:
            _log.error("what was said in Telegram could not be handled: %s", type(error).__name__)

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            _log.warning("nothing is heard from Telegram: %s", trouble)
        self.trouble = trouble
