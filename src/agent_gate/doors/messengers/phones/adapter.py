"""Phones at home as a messenger: each phone is a place, which is shown what its owner may answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress

from agent_gate.config import HomeAssistantConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.adapter import Attached
from agent_gate.doors.messengers.answers import Answers
from agent_gate.doors.messengers.channel import Message, PlaceRefused
from agent_gate.doors.messengers.delivery import Undelivered
from agent_gate.doors.messengers.phones.actions import action_of, tag_of
from agent_gate.doors.messengers.phones.notice import render
from agent_gate.doors.messengers.phones.phones import PRESSED, Button, Line, phones_of
from agent_gate.doors.messengers.phones.presses import Press, Presses, Told, press_of
from agent_gate.doors.messengers.seal import Seals, Verb
from agent_gate.doors.messengers.status import Ended, Open
from agent_gate.doors.shapes import digest
from agent_gate.model.bounds import HOME_GOODBYE_S, HOME_PRESSES_MAX, HOME_QUESTIONS_MAX
from agent_gate.model.tool import Json
from agent_gate.pipeline.hold import not_entitled
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.commands import Commands
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.service import HomeAssistantService

_TOLD_S = 300
"""Time for which a phone shows that an answer did not count."""
_log = logging.getLogger(__name__)


class PhonesAdapter:
    """An `Adapter`."""

    name = "home_assistant"
    closes_by_reference = False

    def __init__(self, settings: HomeAssistantConfig, *, questions_max: int = HOME_QUESTIONS_MAX) -> None:
        self._settings, self.questions_max = settings, questions_max
        self._heard: asyncio.Queue[Press] = asyncio.Queue(HOME_PRESSES_MAX)
        self._stop_listening: Callable[[], None] = lambda: None
        self._shown_by = 0
        """The number of the connection that was there when everything was last shown."""

    def attach(self, attached: Attached) -> None:
        self._attached, self._gate = attached, attached.context.gate
        self._client = _client_of(attached.context)
        phones = phones_of(self._settings, attached.context.identities)
        self._phones = {phone.service: phone for phone in phones}
        self.places = tuple(self._phones)
        send = Commands(self._client, self._gate.ledger, self._gate.clock, self._gate.ids).send
        self._line, self._seals = Line(self._client, send), Seals(self._gate.secrets.keyed_hash, self.name)
        answers = Answers(
            attached.context, self._seals, lambda question: render(question).complete, attached.board.digest_of
        )
        self._presses = Presses(answers, phones)

    async def start(self) -> None:
        """Begin to listen, and show everything again: what was pressed meanwhile was not heard."""
        self._stop_listening = self._client.listen(PRESSED, self._hear)
        with suppress(TimeoutError):
            async with asyncio.timeout(HOME_GOODBYE_S):
                await self._client.settle()
        self._shown_by = self._line.number
        self._show_all_anew()

    def listening(self) -> tuple[Coroutine[None, None, None], ...]:
        return (self._answer(),)

    def before_look(self) -> None:
        """Over a new connection: what phones show may have been lost with the old one."""
        number = self._line.number
        if number not in (0, self._shown_by):
            self._shown_by = number
            self._show_all_anew()

    async def close_down(self) -> None:
        self._stop_listening()

    @property
    def trouble(self) -> str:
        unknown = next((service for service in self.places if not self._line.reaches(service)), None)
        if unknown is not None and not self._line.trouble:
            return f"home assistant has no notify.{unknown}; look for the name of the phone among its actions"
        return self._line.trouble

    def concerns(self, place: str, now: Open) -> bool:
        """Its owner may answer, and has not done so yet."""
        owner = self._phones[place].approver
        return owner.id not in now.approved_by and not_entitled(now.question, owner) is None

    async def show(self, place: str, now: Open, before: Message | None) -> Message:  # noqa: ARG002 -- tags replace it
        question, phone = now.question, self._phones[place]
        notice = render(question, now.approved_by, now.unattended)
        sealed = [
            self._seals.sealed(verb, question.call_id, digest(question), phone.holder)
            for verb in ((Verb.ALLOW, Verb.DENY) if notice.complete else (Verb.DENY,))
        ]
        buttons = [Button(one.verb.name.capitalize(), action_of(one), allows=one.verb is Verb.ALLOW) for one in sealed]
        left_s = max(int(question.left_s(self._gate.clock)), 1)
        try:
            await self._line.show(
                question.call_id, place, self._tag(question.call_id, place), notice.title, notice.text, buttons, left_s
            )
        except Refused as refused:
            raise PlaceRefused(f"home assistant does not write to notify.{place}: {refused.problem.detail}") from None
        return Message()

    async def close(self, place: str, call_id: str, now: Ended, before: Message) -> None:  # noqa: ARG002
        """Taken away, however it ended."""
        try:
            await self._line.clear(call_id, place, self._tag(call_id, place))
        except Refused:
            _log.debug("there is no notify.%s any more", place)

    def _tag(self, call_id: str, service: str) -> str:
        return tag_of(call_id, service, self._gate.secrets.keyed_hash)

    def _show_all_anew(self) -> None:
        """Presses may have been lost, and phones take away what was pressed."""
        for call_id in self._attached.board.known():
            self._attached.board.show_anew(call_id)

    def _hear(self, event: Mapping[str, Json]) -> None:
        press = press_of(event)
        if press is None:
            return
        try:
            self._heard.put_nowait(press)
        except asyncio.QueueFull:
            self._presses.turn_away(press, "more buttons are pressed than can be looked at")

    async def _answer(self) -> None:
        while True:
            press = await self._heard.get()
            try:
                told = await self._presses.answer(press)
            except Exception as error:  # most likely the ledger's
                _log.error("what was pressed on a phone could not be handled: %s", type(error).__name__)
                self._show_all_anew()
                continue
            if told is not None:
                await self._after(told)

    async def _after(self, told: Told) -> None:
        """The phone has taken its notification away: it gets another one, or none is due any more."""
        self._attached.board.show_anew(told.call_id, told.phone.service)
        self._attached.refresh(told.call_id)
        if told.text:
            tag = self._tag(f"{told.call_id} told", told.phone.service)
            with suppress(Undelivered, Refused):
                await self._line.tell(told.call_id, told.phone.service, tag, told.text, _TOLD_S)


def _client_of(context: ServerContext) -> HomeClient:
    services = (service for service in context.gate.services if isinstance(service, HomeAssistantService))
    return next(services).client
