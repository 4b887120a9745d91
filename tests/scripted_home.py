"""A Home Assistant whose every word a test may choose, and pauses that end when a test says so."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.system.clock import SystemClock
from tests.gates import soon

TOKEN = "eyJhbGciOiJIUzI1NiJ9.a-token-of-the-tests"
JITTER = 0.6
"""Makes the first pause before an attempt 0.8 s, which no other pause is."""

_server_log = logging.getLogger(__name__)
_server_log.setLevel(logging.CRITICAL)  # tests look at what the client logs

Message = dict[str, Any]
Answer = Callable[[Message], Any]


class NotAnswered(Exception):
    """Raised by an answer that does not come."""


class No(Exception):
    def __init__(self, code: str, message: str = "") -> None:
        self.code, self.message = code, message


def no(code: str, message: str = "") -> Answer:
    def answer(_: Message) -> Any:
        raise No(code, message)

    return answer


def state(entity_id: str, value: str, at: str = "00", **attributes: Any) -> Message:
    """As a server writes it; `at` are seconds within a certain minute."""
    moment = f"2026-03-04T12:00:{at}+00:00"
    return {
        "entity_id": entity_id,
        "state": value,
        "attributes": attributes,
        "last_changed": moment,
        "last_updated": moment,
        "context": {"id": f"context-{at}", "parent_id": None, "user_id": None},
    }


def changed(entity_id: str, new: Message | None, at: str = "00") -> Message:
    data = {"entity_id": entity_id, "old_state": None, "new_state": new}
    return {"event_type": "state_changed", "data": data, "time_fired": f"2026-03-04T12:00:{at}+00:00", "context": {}}


class ScriptedHome:
    """Answers the usual questions; whatever is put into `answers` replaces that."""

    def __init__(self) -> None:
        self.url, self.version = "", "2024.3.3"
        self.token, self.phase = TOKEN, "RUNNING"
        self.is_down = False
        """The WebSocket is not to be had."""
        self.heard: list[Message] = []
        self.texts: list[str] = []
        self.connections: list[ServerConnection] = []
        self.attempts = 0
        self.states: list[Message] = []
        self.rest: dict[str, Callable[[], Any]] = {
            "/api/config": lambda: {"state": self.phase, "version": self.version},
            "/api/states": lambda: self.states,
            "/api/services": list,
        }
        self.rest_asked: list[str] = []
        self.may_tell_states = asyncio.Event()
        """By REST."""
        self.may_tell_states.set()
        self.answers: dict[str, Answer] = {
            "supported_features": lambda _: None,
            "auth/current_user": lambda _: {"id": "user-of-the-gate"},
            "get_config": lambda _: {"state": self.phase},
            "subscribe_events": lambda _: None,
            "unsubscribe_events": lambda _: None,
            "get_states": lambda _: self.states,
            "get_services": lambda _: {},
            "config/area_registry/list": lambda _: [],
            "config/device_registry/list": lambda _: [],
            "config/entity_registry/list": lambda _: [],
            "config/floor_registry/list": no("unknown_command"),
            "config/label_registry/list": no("unknown_command"),
        }

    def subscription(self, event_type: str = "state_changed") -> int:
        """Its number on the newest connection."""
        asked = [m for m in self.heard if m["type"] == "subscribe_events" and m["event_type"] == event_type]
        number = asked[-1]["id"]
        assert isinstance(number, int)
        return number

    def types(self) -> list[str]:
        return [message["type"] for message in self.heard]

    def event(self, event: Message) -> Message:
        return {"id": self.subscription(event["event_type"]), "type": "event", "event": event}

    async def say(self, frame: Any) -> None:
        await self.connections[-1].send(frame if isinstance(frame, str) else json.dumps(frame))

    async def drop(self) -> None:
        self.connections[-1].transport.abort()
        await self.connections[-1].wait_closed()

    def result(self, message: Message) -> Message:
        answer = self.answers.get(message["type"], no("unknown_command", "Unknown command."))
        try:
            return {"id": message["id"], "type": "result", "success": True, "result": answer(message)}
        except No as refusal:
            error = {"code": refusal.code, "message": refusal.message}
            return {"id": message["id"], "type": "result", "success": False, "error": error}

    async def talk(self, connection: ServerConnection) -> None:
        self.attempts += 1
        with suppress(ConnectionClosed):
            await connection.send(json.dumps({"type": "auth_required", "ha_version": self.version}))
            self.texts.append(str(await connection.recv()))
            if json.loads(self.texts[-1]).get("access_token") != self.token:
                await connection.send(
                    json.dumps({"type": "auth_invalid", "message": "Invalid access token or password"})
                )
                return
            await connection.send(json.dumps({"type": "auth_ok", "ha_version": self.version}))
            self.connections.append(connection)
            async for text in connection:
                self.texts.append(str(text))
                await self.take(json.loads(text))

    async def take(self, message: Message) -> None:
        self.heard.append(message)
        if message["type"] == "ping":
            if "ping" not in self.answers:
                await self.say({"id": message["id"], "type": "pong"})
            return
        with suppress(NotAnswered):
            await self.say(self.result(message))

    async def request(self, _: ServerConnection, request: Request) -> Response | None:
        if request.path == "/api/websocket":
            return _response(502, b"Bad Gateway") if self.is_down else None
        self.rest_asked.append(request.path)
        if request.path == "/api/states":
            await self.may_tell_states.wait()
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _response(401, b"401: Unauthorized")
        found = self.rest.get(request.path.partition("?")[0])
        return _response(404, b"") if found is None else _response(200, json.dumps(found()).encode())

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedHome]:
        async with serve(
            self.talk,
            "127.0.0.1",
            0,
            ssl=tls,
            process_request=self.request,
            max_size=None,
            close_timeout=0.2,
            logger=_server_log,
        ) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            yield self


def _response(status: int, body: bytes) -> Response:
    headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
    return Response(status, HTTPStatus(status).phrase, headers, body)


class Pauses:
    """Every pause of a client; none ends by itself."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._open: list[tuple[float, asyncio.Future[None]]] = []
        self._more = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked.append(seconds)
        self._open.append((seconds, ended))
        self._more.set()
        await ended

    async def end(self, seconds: float) -> None:
        """End the one pause of this length, as soon as there is one."""
        async with asyncio.timeout(20):
            while not (found := [one for one in self._open if one[0] == seconds and not one[1].done()]):
                self._more.clear()
                await self._more.wait()
        for one in found:
            self._open.remove(one)
            one[1].set_result(None)


@asynccontextmanager
async def a_client(
    url: str,
    token: str = TOKEN,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    bounds: HomeBounds = DEFAULT_BOUNDS,
    **settings: Any,
) -> AsyncIterator[HomeClient]:
    """Started, and closed in the end."""
    config = HomeAssistantConfig(url, **settings)
    client = HomeClient(config, token, SystemClock(), pause=pause, jitter=lambda: JITTER, bounds=bounds)
    try:
        await soon(client.start())
        yield client
    finally:
        await soon(client.close())


def registered(entity_id: str, **fields: Any) -> Mapping[str, Any]:
    return {"entity_id": entity_id, "platform": "demo", **fields}
