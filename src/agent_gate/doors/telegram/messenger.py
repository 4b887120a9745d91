"""The messenger: takes questions without waiting, and keeps the chat and the ledger in step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_gate.config import TelegramConfig
from agent_gate.doors.backoff import Pause
from agent_gate.doors.context import ServerContext
from agent_gate.doors.delivery import Delivery
from agent_gate.doors.question_watch import QuestionWatch
from agent_gate.doors.telegram.answers import Answers, Notice
from agent_gate.doors.telegram.board import Board
from agent_gate.doors.telegram.commands import Commands
from agent_gate.doors.telegram.faults import TelegramFault
from agent_gate.doors.telegram.hearing import Hearing
from agent_gate.doors.telegram.updates import Command, Press
from agent_gate.model.approval import Question
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.limits import TELEGRAM_NOTICES_MAX
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
        self._context: ServerContext | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._notices: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> None:
        self._delivery.add(question.call_id)

    async def resolved(self, question: Question, resolution: str, by: str) -> None:  # noqa: ARG002 -- the ledger says it
        self._delivery.add(question.call_id)

    def attach(self, context: ServerContext) -> None:
        self._context = context
        self._board = Board(context, self._bot, self._chat_id)
        self._question_watch = QuestionWatch(context, self._board, self._delivery, self._pause)
        self._answers, self._commands = Answers(context, self._chat_id), Commands(context, self._chat_id)

    async def start(self) -> None:
        """Go on with what an earlier process showed; that Telegram cannot be reached is no reason not to start."""
        assert self._context is not None, "attach the hall first"
        await self._board.recall()
        await self._question_watch.look_at_all()
        runs = (self._delivery.run(self._board.refresh), self._hearing.run(), self._question_watch.run())
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
