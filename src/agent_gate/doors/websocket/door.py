"""The agents' WebSocket: each socket says whose it is, in time, before it is served."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from agent_gate.doors.codes import Rpc, rpc_of_problem
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import STRANGER, address_of, bearer_token
from agent_gate.doors.throttle import slowed_down
from agent_gate.doors.websocket import rpc
from agent_gate.doors.websocket.connection import CLOSING, LINE, POLICY_VIOLATION, RESTART, TRY_LATER, Connection
from agent_gate.doors.websocket.methods import Session
from agent_gate.doors.websocket.params import checked
from agent_gate.doors.websocket.rpc import Request, RpcError
from agent_gate.model.call import Agent
from agent_gate.model.errors import GateError, Problem

UNKNOWN = Problem(6002, "the token is no agent's here", "send `auth` with a token of the configuration")
UNNAMED = Problem(6002, "the first message must be `auth`", "send `auth` with the agent's token first")


class Door:
    """An ASGI application: one call of it is one socket."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._handshakes: dict[asyncio.Timeout, None] = {}
        """Those under way, the oldest first."""
        self._connections: dict[Connection, None] = {}
        self._of_agent: Counter[str] = Counter()
        self._lingering: set[asyncio.Task[None]] = set()
        """Requests whose agent has gone; what they set off goes on to its end."""
        self._farewell: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # that it wants to connect
        await send({"type": "websocket.accept"})
        with suppress(OSError):  # it has gone
            session = await self._identified(scope, receive, send)
            if session is not None:
                await self._serve(session, scope, receive, send)

    async def _identified(self, scope: Scope, receive: Receive, send: Send) -> Session | None:
        """Identify the socket's agent; None where it does not say so in time, or is refused."""
        if len(self._handshakes) >= self._context.bounds.handshakes_max:
            # Silent sockets do not keep others out: the oldest of them has had the most time.
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.reschedule(0)
        try:
            async with asyncio.timeout(self._context.bounds.handshake_timeout_s) as handshake:
                self._handshakes[handshake] = None
                try:
                    return await self._handshake(scope, receive, send)
                finally:
                    self._handshakes.pop(handshake, None)
        except TimeoutError:
            await _close(send, POLICY_VIOLATION, "nobody said in time whose socket it is")
        except RpcError as refused:
            await send({"type": "websocket.send", "text": rpc.error(refused.id, refused).decode()})
            slowed = refused.code is Rpc.TOO_MANY
            await _close(send, TRY_LATER if slowed else POLICY_VIOLATION, "not authenticated")
        return None

    async def _handshake(self, scope: Scope, receive: Receive, send: Send) -> Session | None:
        connection = HTTPConnection(scope)
        address, token = address_of(connection), bearer_token(connection)
        if token is not None:
            return Session(self._context, self._agent(address, token))
        event = await receive()
        if event["type"] != "websocket.receive":
            return None
        request = self._first(event.get("text"))
        session = Session(self._context, self._agent(address, request.params["token"], request.id))
        try:
            greeting = await session.greeting()
        except GateError as error:
            told = RpcError.of(error.problem)
            raise RpcError(told.code, told.message, told.data, request.id) from None
        if not request.is_notification:
            await send({"type": "websocket.send", "text": rpc.result(request.id, greeting).decode()})
        return session

    def _first(self, text: str | None) -> Request:
        """The request `auth`; anything else is not listened to."""
        if text is None:
            raise RpcError(Rpc.INVALID_REQUEST, "binary messages are not taken")
        request = rpc.read(text)
        if request.method != "auth":
            raise self._turned_away(UNNAMED, request.id)
        try:
            checked(request.params, ("token",))
        except RpcError as wrong:
            raise RpcError(wrong.code, wrong.message, id=request.id) from None
        return request

    def _agent(self, address: str, token: str, request_id: str | int | None = None) -> Agent:
        throttle = self._context.throttle
        wait_s = throttle.wait_s(address, token)
        if wait_s:
            raise self._turned_away(slowed_down(wait_s), request_id)
        agent = self._context.identities.agent(token)
        if agent is None:
            throttle.failed(address)
            raise self._turned_away(UNKNOWN, request_id)
        throttle.succeeded(address, token)
        return agent

    def _turned_away(self, problem: Problem, request_id: str | int | None) -> RpcError:
        self._context.gate.count_refusal(STRANGER, problem)
        return RpcError(rpc_of_problem(problem), str(problem), {"error": problem.to_json()}, request_id)

    async def _serve(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        agent_id = session.agent.id
        if self._context.closing.is_set():
            await _close(send, RESTART, CLOSING.name)
            return
        if self._of_agent[agent_id] >= self._context.bounds.agent_connections_max:
            await _close(send, TRY_LATER, "too many connections of this agent")
            return
        offered = scope.get("extensions", {}).get(LINE)
        connection = Connection(session, send, self._lingering, offered and offered["line"])
        if self._farewell is None:
            self._farewell = asyncio.create_task(self._say_goodbye())
        self._connections[connection] = None
        self._of_agent[agent_id] += 1
        try:
            await connection.serve(receive)
        finally:
            del self._connections[connection]
            self._of_agent[agent_id] -= 1
            if not self._connections and not self._context.closing.is_set():
                self._farewell.cancel()
                self._farewell = None

    async def _say_goodbye(self) -> None:
        await self._context.closing.wait()
        await asyncio.gather(*(connection.say_goodbye() for connection in list(self._connections)))


async def _close(send: Send, code: int, reason: str) -> None:
    await send({"type": "websocket.close", "code": code, "reason": reason})
