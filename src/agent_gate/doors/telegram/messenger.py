"""The messenger: takes questions without waiting, and keeps the chat and the ledger in step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_gate.config import TelegramConfig
from agent_gate.doors.backoff import Pause
from agent_gate.doors.delivery import Delivery
from agent_gate.doors.hall import Hall
from agent_gate.doors.telegram.answers import Answers, Notice
from agent_gate.doors.telegram.board import Board
from agent_gate.doors.telegram.commands import Commands
from agent_gate.doors.telegram.faults import TelegramFault
from agent_gate.doors.telegram.hearing import Hearing
from agent_gate.doors.telegram.updates import Command, Press
from agent_gate.model.approval import Question
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.limits import TELEGRAM_LOOK_AGAIN_S, TELEGRAM_LOOK_INTERVAL_S, TELEGRAM_NOTICES_MAX
from agent_gate.ports import Notifier

if TYPE_CHECKING:
    from agent_gate.doors.telegram.bot import TelegramBot

_log = logging.getLogger(__name__)


class TelegramMessenger(Notifier):
    """Give it to the gate as its notifier, then `attach` the hall, then `start`."""

    def __init__(self, settings: TelegramConfig, *, pause: Pause = asyncio.sleep) -> None:
        self._bot, self._chat_id, self._pause = _bot(settings), settings.chat_id, pause
        self._delivery = Delivery(pause)
        self._hearing = Hearing(self._bot, self._handle, pause)
        self._hall: Hall | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._notices: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> None:
        self._delivery.add(question.call_id)

    async def resolved(self, question: Question, resolution: str, by: str) -> None:  # noqa: ARG002 -- the ledger says it
        self._delivery.add(question.call_id)

    def attach(self, hall: Hall) -> None:
        self._hall = hall
        self._board = Board(hall, self._bot, self._chat_id)
        self._answers, self._commands = Answers(hall, self._chat_id), Commands(hall, self._chat_id)

    async def start(self) -> None:
        """Go on with what an earlier process showed; that Telegram cannot be reached is no reason not to start."""
        assert self._hall is not None, "attach the hall first"
        await self._board.recall()
        await self._look_at_all()
        runs = (self._delivery.run(self._board.refresh), self._hearing.run(), self._watch())
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def close(self) -> None:
        """What is not said yet is said by the next process."""
        await self._delivery.settle()
        tasks, self._tasks = [*self._tasks, *self._notices], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._bot.close()

    def healthy(self) -> bool:
        return bool(self._tasks) and not self.trouble and not any(task.done() for task in self._tasks)

    @property
    def trouble(self) -> str:
        """What is wrong, in one line; empty where nothing is."""
        return self._hearing.trouble or self._delivery.trouble

    async def _watch(self) -> None:
        """Notice what happens elsewhere: other doors, other processes, deadlines of questions that nobody holds."""
        assert self._hall is not None
        clock, ledger = self._hall.gate.clock, self._hall.gate.ledger
        while True:
            left_s = 0.0 if self._can_catch_up() else self._board.next_deadline() - clock.now()
            wait_s = min(TELEGRAM_LOOK_AGAIN_S, max(TELEGRAM_LOOK_INTERVAL_S, left_s))
            change = asyncio.create_task(ledger.wait_for_change(wait_s))
            try:
                await asyncio.sleep(0)  # so that it listens before we look
                await self._look_at_shown()
                await self._pause(TELEGRAM_LOOK_INTERVAL_S)
                await change
            except Exception as error:  # most likely the ledger's, and it may be back the next time
                _log.error("cannot see how questions stand: %s", type(error).__name__)
                await self._pause(TELEGRAM_LOOK_AGAIN_S)
            finally:
                change.cancel()

    async def _look_at_shown(self) -> None:
        for call_id in self._board.known():
            if await self._board.is_stale(call_id):
                self._delivery.add(call_id)
        if self._can_catch_up() and self._delivery.is_empty:
            await self._look_at_all()

    def _can_catch_up(self) -> bool:
        """Whether something was left out for which there is room now."""
        return (self._delivery.left_out or self._board.left_out) and self._board.has_room()

    async def _look_at_all(self) -> None:
        assert self._hall is not None
        self._delivery.left_out = self._board.left_out = False
        for call_id in self._board.known():
            self._delivery.add(call_id)
        for one in await self._hall.desk.questions():
            self._delivery.add(one.question.call_id)

    async def _handle(self, heard: Press | Command) -> None:
        if isinstance(heard, Command):
            await self._obey(heard)
            return
        forgotten = heard.has_buttons and not self._board.remembers(heard.message_id)
        notice = await self._answers.press(heard)
        if notice.call_id:
            self._delivery.add(notice.call_id)
        self._soon(self._tell(heard, notice, forgotten=forgotten))

    async def _tell(self, press: Press, notice: Notice, *, forgotten: bool) -> None:
        """As well as it goes: Telegram forgets a press after a while, and the message says it too."""
        with suppress(TelegramFault):
            await self._bot.notify(press.callback_id, notice.text, alert=not notice.counted)
        if notice.call_id and forgotten:
            with suppress(TelegramFault, GateError):
                await self._board.let_go(notice.call_id, press.message_id)

    async def _obey(self, command: Command) -> None:
        reply, again = await self._commands.obey(command)
        if reply:
            self._soon(self._reply(reply, again, command.message_id))

    async def _reply(self, text: str, again: list[str], message_id: int) -> None:
        with suppress(TelegramFault):
            await self._bot.send(text, reply_to=message_id)
        for call_id in again:
            self._board.show_again(call_id)
            self._delivery.add(call_id)

    def _soon(self, work: Coroutine[None, None, None]) -> None:
        if len(self._notices) >= TELEGRAM_NOTICES_MAX:
            work.close()
            return
        task = asyncio.create_task(work)
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)


def _bot(settings: TelegramConfig) -> TelegramBot:
    try:
        from agent_gate.doors.telegram.bot import TelegramBot  # noqa: PLC0415 -- an extra, which may be missing
    except ModuleNotFoundError:
        raise ConfigError(
            "messenger.telegram needs the package python-telegram-bot", suggestion="pip install 'agent-gate[telegram]'"
        ) from None
    return TelegramBot(settings)
