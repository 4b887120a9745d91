"""Telegram as a messenger: one place, the chat, whose messages are sent, edited and answered by buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_gate.config import GatewayConfig, TelegramConfig
from agent_gate.doors.messengers.adapter import Attached
from agent_gate.doors.messengers.answers import Answers
from agent_gate.doors.messengers.channel import SHOW_ANEW, Message
from agent_gate.doors.messengers.render import ELSEWHERE, closed, render
from agent_gate.doors.messengers.seal import Seals, Verb, offered
from agent_gate.doors.messengers.status import Ended, Open, status_of
from agent_gate.doors.messengers.telegram.commands import Commands
from agent_gate.doors.messengers.telegram.faults import TelegramFault, Uneditable
from agent_gate.doors.messengers.telegram.hearing import Hearing
from agent_gate.doors.messengers.telegram.presses import Notice, Presses
from agent_gate.doors.messengers.telegram.updates import Button, Command, Press
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from agent_gate.model.bounds import TELEGRAM_BUTTON_BYTES_MAX, TELEGRAM_NOTICES_MAX, TELEGRAM_QUESTIONS_MAX
from agent_gate.model.errors import ConfigError, GateError

if TYPE_CHECKING:
    from agent_gate.doors.messengers.telegram.bot import TelegramBot

_LABELS = {Verb.ALLOW: "Allow", Verb.DENY: "Deny", Verb.GRANT: "Allow 1 h × 5"}
_SHOWN_AGAIN = "Shown again below."


class TelegramAdapter:
    """An `Adapter`; ConfigError where the library is not installed."""

    name = "telegram"
    closes_by_reference = True

    def __init__(
        self,
        settings: TelegramConfig,
        *,
        questions_max: int = TELEGRAM_QUESTIONS_MAX,
        notices_max: int = TELEGRAM_NOTICES_MAX,
    ) -> None:
        self._bot, self._chat_id = _bot(settings), settings.chat_id
        self.questions_max, self._notices_max = questions_max, notices_max
        self.places = (str(settings.chat_id),)
        self._notices: set[asyncio.Task[None]] = set()

    def attach(self, attached: Attached) -> None:
        self._attached, context = attached, attached.context
        self._elsewhere = _console_of(context.config.gateway)
        self._seals = Seals(context.gate.secrets.keyed_hash, self.name)
        answers = Answers(context, self._seals, lambda question: render(question).complete)
        self._presses = Presses(context, answers, self._chat_id)
        self._commands = Commands(context, self._chat_id)
        self._hearing = Hearing(self._bot, self._handle, attached.pause)

    async def start(self) -> None:
        """Telegram is greeted by the one who listens."""

    def listening(self) -> tuple[Coroutine[None, None, None], ...]:
        return (self._hearing.run(),)

    def before_look(self) -> None:
        """Nothing gets lost between two looks."""

    async def close_down(self) -> None:
        notices = list(self._notices)
        for task in notices:
            task.cancel()
        await asyncio.gather(*notices, return_exceptions=True)
        await self._bot.close()

    @property
    def trouble(self) -> str:
        return self._hearing.trouble

    def concerns(self, place: str, now: Open) -> bool:  # noqa: ARG002 -- everybody in the chat sees every question
        return True

    async def show(self, place: str, now: Open, before: Message | None) -> Message:  # noqa: ARG002 -- there is one
        question = now.question
        rendered = render(question, now.approved_by, elsewhere=self._elsewhere, unattended=now.unattended)
        buttons = self._buttons(question, complete=rendered.complete)
        if before is None or before.state == SHOW_ANEW:
            message_id = await self._bot.send(rendered.text, buttons)
            if before is not None and before.reference:
                await self._replaced(int(before.reference))
        else:
            message_id = await self._edited(int(before.reference), rendered.text, buttons)
        return Message(str(message_id), about=rendered.about)

    async def close(self, place: str, call_id: str, now: Ended, before: Message) -> Message | None:  # noqa: ARG002
        if place not in self.places or not before.reference:  # a chat of earlier, or a message that never arrived
            return None
        text = closed(now.headline, before.about or now.about)
        message_id = await self._edited(int(before.reference), text)
        return Message(str(message_id), now.headline, before.about)

    def _buttons(self, question: Question, *, complete: bool) -> tuple[Button, ...]:
        once_only = bool(self._attached.context.approvals.why_once_only(question))
        return tuple(self._button(verb, question) for verb in offered(complete=complete, once_only=once_only))

    def _button(self, verb: Verb, question: Question) -> Button:
        data = self._seals.sealed(verb, question.call_id, digest(question)).text
        assert len(data.encode()) <= TELEGRAM_BUTTON_BYTES_MAX
        return Button(_LABELS[verb], data)

    async def _edited(self, message_id: int, text: str, buttons: tuple[Button, ...] = ()) -> int:
        """Change the message; where that is not possible any more, a reply says it."""
        try:
            await self._bot.edit(message_id, text, buttons)
        except Uneditable:
            return await self._bot.send(text, buttons, reply_to=message_id)
        return message_id

    async def _replaced(self, message_id: int) -> None:
        with suppress(TelegramFault):  # its buttons say the same as those of the new message
            await self._bot.edit(message_id, _SHOWN_AGAIN)

    async def _handle(self, heard: Press | Command) -> None:
        if isinstance(heard, Command):
            await self._obey(heard)
            return
        forgotten = heard.has_buttons and not self._attached.board.remembers(str(heard.message_id))
        notice = await self._presses.answer(heard)
        if notice.call_id:
            self._attached.refresh(notice.call_id)
        self._soon(self._tell(heard, notice, forgotten=forgotten))

    async def _tell(self, press: Press, notice: Notice, *, forgotten: bool) -> None:
        """As well as it goes: Telegram forgets a press after a while, and the message says it too."""
        with suppress(TelegramFault):
            await self._bot.notify(press.callback_id, notice.text, alert=not notice.counted)
        if notice.call_id and forgotten:
            with suppress(TelegramFault, GateError):
                await self._let_go(notice.call_id, press.message_id)

    async def _let_go(self, call_id: str, message_id: int) -> None:
        """A message that nobody remembers: let it lead to the one that is kept up to date, or say how things ended."""
        gate = self._attached.context.gate
        now = await status_of(call_id, gate.ledger, gate.clock)
        if self._attached.board.shows(call_id):
            await self._bot.edit(message_id, _SHOWN_AGAIN)
        elif isinstance(now, Ended) and now.about:
            await self._bot.edit(message_id, closed(now.headline, now.about))

    async def _obey(self, command: Command) -> None:
        reply, again = await self._commands.obey(command)
        if reply:
            self._soon(self._reply(reply, again, command.message_id))

    async def _reply(self, text: str, again: list[str], message_id: int) -> None:
        with suppress(TelegramFault):
            await self._bot.send(text, reply_to=message_id)
        for call_id in again:
            self._attached.board.show_anew(call_id)
            self._attached.refresh(call_id)

    def _soon(self, work: Coroutine[None, None, None]) -> None:
        if len(self._notices) >= self._notices_max:
            work.close()
            return
        task = asyncio.create_task(work)
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)


def _bot(settings: TelegramConfig) -> TelegramBot:
    try:
        from agent_gate.doors.messengers.telegram.bot import TelegramBot  # noqa: PLC0415 -- an extra, which may be missing
    except ModuleNotFoundError:
        raise ConfigError(
            "messenger.telegram needs the package python-telegram-bot", suggestion="pip install 'agent-gate[telegram]'"
        ) from None
    return TelegramBot(settings)


def _console_of(gateway: GatewayConfig) -> str:
    """Find the address of the console, if the configuration says so."""
    if gateway.host in ("0.0.0.0", "::", ""):  # noqa: S104 -- every address of this machine is none to name
        return ELSEWHERE
    host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
    return (
        f"the console ({'https' if gateway.tls else 'http'}://{host}:{gateway.port}/console), or `agent-gate pending`"
    )
