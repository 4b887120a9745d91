"""Approvals at home: takes questions without waiting, and keeps phones and the ledger in step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_gate.config import HomeAssistantConfig
from agent_gate.doors.backoff import Pause
from agent_gate.doors.context import ServerContext
from agent_gate.doors.delivery import Delivery, Undelivered
from agent_gate.doors.home_assistant.actions import Seals
from agent_gate.doors.home_assistant.answers import Answers, Press, Told, press_of
from agent_gate.doors.home_assistant.board import Board
from agent_gate.doors.home_assistant.phones import PRESSED, Line, phones_of
from agent_gate.doors.question_watch import QuestionWatch
from agent_gate.model.approval import Question
from agent_gate.model.limits import HOME_GOODBYE_S, HOME_PRESSES_MAX
from agent_gate.model.tool import Json
from agent_gate.ports import Notifier
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.commands import Commands
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.service import HomeAssistantService

_TOLD_S = 300
"""How long a phone shows that an answer did not count."""
_log = logging.getLogger(__name__)


class HomeApprovals(Notifier):
    """Give it to the gate as its notifier, then `attach` the hall, then `start`."""

    def __init__(self, settings: HomeAssistantConfig, *, pause: Pause = asyncio.sleep) -> None:
        self._settings, self._pause = settings, pause
        self._delivery = Delivery(pause)
        self._presses: asyncio.Queue[Press] = asyncio.Queue(HOME_PRESSES_MAX)
        self._context: ServerContext | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_listening: Callable[[], None] = lambda: None
        self._shown_by = 0
        """The number of the connection that was there when everything was last shown."""

    async def ask(self, question: Question) -> None:
        self._delivery.add(question.call_id)

    async def resolved(self, question: Question, resolution: str, by: str) -> None:  # noqa: ARG002 -- the ledger says it
        self._delivery.add(question.call_id)

    def attach(self, context: ServerContext) -> None:
        self._context, self._client = context, _client_of(context)
        phones = phones_of(self._settings, context.identities)
        gate = context.gate
        send = Commands(self._client, gate.ledger, gate.clock, gate.ids).send
        self._seals, self._line = Seals(gate.secrets.keyed_hash), Line(self._client, send)
        self._board = Board(context, phones, self._line)
        self._question_watch = QuestionWatch(
            context, self._board, self._delivery, self._pause, self._show_again_after_a_gap
        )
        self._answers = Answers(context, phones, self._board)

    async def start(self) -> None:
        """Go on with what an earlier process showed; that the home cannot be reached is no reason not to start."""
        assert self._context is not None, "attach the hall first"
        self._stop_listening = self._client.listen(PRESSED, self._hear)
        with suppress(TimeoutError):
            async with asyncio.timeout(HOME_GOODBYE_S):
                await self._client.settle()
        self._shown_by = self._line.number
        await self._board.recall()
        await self._question_watch.look_at_all()
        runs = (self._delivery.run(self._board.refresh), self._answer(), self._question_watch.run())
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def close(self) -> None:
        """What phones show stays there: the next process goes on with it."""
        self._stop_listening()
        await self._delivery.settle()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def healthy(self) -> bool:
        return bool(self._tasks) and not self.trouble and not any(task.done() for task in self._tasks)

    @property
    def trouble(self) -> str:
        """What is wrong, in one line; empty where nothing is."""
        return self._line.trouble or self._delivery.trouble or self._board.trouble

    def _hear(self, event: Mapping[str, Json]) -> None:
        press = press_of(event)
        if press is None:
            return
        try:
            self._presses.put_nowait(press)
        except asyncio.QueueFull:
            self._answers.turn_away(press, "more buttons are pressed than can be looked at")

    async def _answer(self) -> None:
        while True:
            press = await self._presses.get()
            try:
                told = await self._answers.press(press)
            except Exception as error:  # most likely the ledger's
                _log.error("what was pressed on a phone could not be handled: %s", type(error).__name__)
                self._board.show_again()
                continue
            if told is not None:
                await self._after(told)

    async def _after(self, told: Told) -> None:
        """The phone has taken its notification away: it gets another one, or none is due any more."""
        self._board.pressed(told.call_id, told.phone.service)
        self._delivery.add(told.call_id)
        if told.text:
            tag = self._seals.tag(f"{told.call_id} told", told.phone.service)
            with suppress(Undelivered, Refused):
                await self._line.tell(told.call_id, told.phone.service, tag, told.text, _TOLD_S)

    def _show_again_after_a_gap(self) -> None:
        """Over a new connection: what phones show may have been lost with the old one."""
        number = self._line.number
        if number not in (0, self._shown_by):
            self._shown_by = number
            self._board.show_again()


def _client_of(context: ServerContext) -> HomeClient:
    services = (service for service in context.gate.services if isinstance(service, HomeAssistantService))
    return next(services).client
