"""A messenger: takes questions without waiting, and keeps what its adapter shows and the ledger in step."""

from __future__ import annotations

import asyncio

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.adapter import Adapter, Attached
from agent_gate.doors.messengers.backoff import Pause
from agent_gate.doors.messengers.board import Board
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.delivery import Delivery
from agent_gate.doors.messengers.question_watch import QuestionWatch
from agent_gate.model.approval import Question
from agent_gate.ports.watching import Notifier

_BOUNDS = MessengerBounds()


class Messenger(Notifier):
    """Give it to the gate as its notifier, then `attach` the server's context, then `start`."""

    def __init__(self, adapter: Adapter, *, pause: Pause = asyncio.sleep, bounds: MessengerBounds = _BOUNDS) -> None:
        self._adapter, self._pause, self._bounds = adapter, pause, bounds
        self._delivery = Delivery(pause, bounds)
        self._board: Board | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, question: Question) -> None:
        self._delivery.add(question.call_id)

    async def resolved(self, question: Question, resolution: str, by: str) -> None:  # noqa: ARG002 -- the ledger says it
        self._delivery.add(question.call_id)

    @property
    def board(self) -> Board:
        assert self._board is not None, "attach the server's context first"
        return self._board

    def attach(self, context: ServerContext) -> None:
        self._board = Board(context, self._adapter, self._bounds)
        self._watch = QuestionWatch(
            context, self._board, self._delivery, self._pause, self._bounds, self._adapter.before_look
        )
        self._adapter.attach(Attached(context, self._board, self._delivery.add, self._pause))

    async def start(self) -> None:
        """Go on with what an earlier process showed."""
        await self.board.recall()
        await self._adapter.start()
        await self._watch.look_at_all()
        runs = (self._delivery.run(self.board.refresh), self._watch.run(), *self._adapter.listening())
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def close(self) -> None:
        """Stop; what is not said yet is said by the next process, and what people see stays there."""
        await self._delivery.settle()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._adapter.close_down()

    def healthy(self) -> bool:
        return bool(self._tasks) and not self.trouble and not any(task.done() for task in self._tasks)

    @property
    def trouble(self) -> str:
        """Say what is wrong, in one line; empty where nothing is."""
        return self._adapter.trouble or self._delivery.trouble or self.board.trouble
