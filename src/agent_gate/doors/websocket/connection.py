"""One agent's connection: requests in, answers out in whatever order they are reached, each exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Protocol

from starlette.types import Receive, Send

from agent_gate.doors.codes import Rpc
from agent_gate.doors.websocket import rpc
from agent_gate.doors.websocket.methods import METHODS, Session
from agent_gate.doors.websocket.rpc import Request, RpcError
from agent_gate.model.bounds import (
    INTAKE_BACKLOG_MAX,
    INTAKE_PAUSE_S,
    REQUESTS_IN_FLIGHT_MAX,
)
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.outcome import Outcome, Status

_log = logging.getLogger(__name__)

POLICY_VIOLATION, UNSUPPORTED, RESTART, TRY_LATER = 1008, 1003, 1012, 1013
"""Codes with which a connection is closed."""

LINE = "agent_gate.line"
"""An extension of ASGI: the socket itself, where the server lets the door have it."""


class Line(Protocol):
    """A socket without the detour of events, for messages that nothing stands in the way of."""

    def known(self, take: Callable[[bytes], bool]) -> None:
        """It has said whose it is: it gets room, and what it sends is offered here before it is queued."""
        ...

    def say(self, text: bytes) -> bool:
        """True where it could be written at once."""
        ...


CLOSING = Problem(2006, "the server is about to end", "connect again in a moment and repeat the request", "admit")


class Connection:
    def __init__(
        self, session: Session, send: Send, lingering: set[asyncio.Task[None]], line: Line | None = None
    ) -> None:
        """Requests that the agent made and did not wait for go on among the lingering."""
        self._session, self._send_event, self._lingering, self._line = session, send, lingering, line
        self._closing, self._bounds = session.context.closing, session.context.bounds
        self._ledger = session.context.gate.ledger
        self._variables = copy_context()
        """Context variables of the connection: they hold for its requests, whichever way they come in."""
        self._answering: set[asyncio.Task[None]] = set()
        self._plans: set[asyncio.Task[None]] = set()
        self._unsent_bytes = 0
        if line is not None:
            line.known(self.take)

    async def serve(self, receive: Receive) -> None:
        """Until the agent goes; what it asked for goes on, and its outcomes wait for it."""
        try:
            while (event := await receive())["type"] == "websocket.receive":
                text = event.get("text")
                if text is None:
                    await self.close(UNSUPPORTED, "binary messages are not taken")
                    return
                await self._take(text)
                # A flood stays in the sockets rather than in memory.
                while self._ledger.figures().waiting > INTAKE_BACKLOG_MAX:  # noqa: ASYNC110 -- a thread empties it
                    await asyncio.sleep(INTAKE_PAUSE_S)
        finally:
            self._session.presence.here = False
            for task in self._answering:
                self._lingering.add(task)
                task.add_done_callback(self._lingering.discard)
            if self._plans:  # as long as one goes on, this counts among the agent's connections
                await asyncio.wait(self._plans)

    def take(self, text: bytes) -> bool:
        """Begin with a request at once; what is no request, or may not be begun, goes the long way.

        So does what comes while several are unanswered: a flood stays in the socket.
        """
        if len(self._answering) >= self._bounds.straight_max:
            return False
        try:
            request = rpc.read(text)
        except RpcError:
            return False
        if self._refusal(request) is not None:
            return False
        self._start(request)
        return True

    async def _take(self, text: str) -> None:
        try:
            request = rpc.read(text)
        except RpcError as refused:
            await self.send(rpc.error(refused.id, refused))
            return
        problem = self._refusal(request)
        if problem is None:
            self._start(request)
        elif not request.is_notification:
            await self.send(rpc.error(request.id, problem))

    def _refusal(self, request: Request) -> RpcError | None:
        """Say why a request is not even begun."""
        if request.method not in METHODS:
            names = ", ".join(METHODS)
            return RpcError(Rpc.UNKNOWN_METHOD, f"unknown method `{request.method[:50]}`; there are {names}")
        if self._closing.is_set():
            return RpcError(Rpc.FAILED, str(CLOSING), refused(request, CLOSING).to_json())
        crowded = len(self._plans) >= self._bounds.plans_under_way_max and request.method == "execute_plan"
        if crowded or len(self._answering) >= REQUESTS_IN_FLIGHT_MAX:
            problem = Problem(
                1012,
                f"{len(self._answering)} requests of this connection are unanswered",
                "wait for answers, or open another connection",
                "admit",
            )
            return RpcError(Rpc.TOO_MANY, str(problem), refused(request, problem).to_json())
        return None

    def _start(self, request: Request) -> None:
        """In a task of its own: what a tool leaves behind in its task must not meet another call."""
        task = asyncio.get_running_loop().create_task(self._answer(request), context=self._variables.copy())
        self._answering.add(task)
        if request.method == "execute_plan":
            self._plans.add(task)
            task.add_done_callback(self._plans.discard)

    async def _answer(self, request: Request) -> None:
        task, outcome = asyncio.current_task(), None
        assert task is not None
        try:
            try:
                reached = await METHODS[request.method](self._session, request.params)
                if isinstance(reached, Outcome):
                    outcome = reached
                    text = rpc.outcome(request.id, reached)
                else:
                    text = rpc.result(request.id, reached)
            except (Exception, asyncio.CancelledError) as error:
                text = rpc.error(request.id, self._told(error))
            was_here = self._session.presence.here  # where it was not, the gate has left the outcome for it
            if not (request.is_notification or self._say(text) or await self.send(text)) and outcome and was_here:
                with suppress(GateError):
                    await self._keep(outcome)
        finally:
            self._answering.discard(task)

    async def _keep(self, outcome: Outcome) -> None:
        """The agent went before it could be told how its call ended; one that goes on is left for it at its end."""
        context = self._session.context
        if outcome.status is Status.PENDING_APPROVAL:
            return
        if await context.gate.result(outcome.call_id) is not None:  # what was refused at the door is not on record
            await context.mailbox.keep(self._session.agent, outcome)

    def _told(self, error: BaseException) -> RpcError:
        """Encode what the agent is told of an error."""
        if isinstance(error, RpcError):
            return error
        if isinstance(error, GateError):
            return RpcError.of(error.problem)
        _log.error("a request of agent %s failed", self._session.agent.id, exc_info=error)
        return RpcError(Rpc.INTERNAL, f"the gate itself failed: {type(error).__name__}")

    def _say(self, text: bytes) -> bool:
        """Send it; True where that could be done at once."""
        return self._line is not None and len(text) <= self._bounds.unsent_bytes_max and self._line.say(text)

    async def send(self, text: bytes) -> bool:
        """Waits while the agent is slow to read; whether it was still there."""
        if self._say(text):
            return True
        size = len(text)
        self._unsent_bytes += size
        try:
            if self._unsent_bytes > self._bounds.unsent_bytes_max:
                await self.close(TRY_LATER, "answers are not being read")
                return False
            await self._send_event({"type": "websocket.send", "text": text.decode()})
        except (OSError, RuntimeError):  # it has gone, or was closed from here
            return False
        finally:
            self._unsent_bytes -= size
        return True

    async def close(self, code: int, reason: str) -> None:
        with suppress(OSError, RuntimeError):  # it has gone, or is closed already
            await self._send_event({"type": "websocket.close", "code": code, "reason": reason})

    async def say_goodbye(self) -> None:
        """The server ends: the agent is told, gets the answers that are still to come, and is let go."""
        await self.send(rpc.notification("closing", {"reason": CLOSING.detail, "suggestion": CLOSING.suggestion}))
        while unanswered := [task for task in self._answering if not task.done()]:
            await asyncio.wait(unanswered)
        await self.close(RESTART, "the server ends")


def refused(request: Request, problem: Problem) -> Outcome:
    given = request.params.get("request_id")
    return Outcome(call_id="", request_id=given if type(given) is str else "", status=_status(problem), error=problem)


def _status(problem: Problem) -> Status:
    return Status.DENIED if problem.code < 2000 else Status.ERROR
