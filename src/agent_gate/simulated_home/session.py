"""One WebSocket connection: the handshake, commands in order, and messages out as one or as a list."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_gate.model.tool import Json
from agent_gate.simulated_home.users import User

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome

PENDING_MAX = 4_096
"""Messages that wait for one connection; one more, and it is dropped."""
NORMAL = 1000


class Session:
    def __init__(self, home: SimulatedHome, socket: WebSocket, cut: Callable[[], None]) -> None:
        self.home, self._socket, self._cut = home, socket, cut
        self.user: User | None = None
        self.subscriptions: dict[int, Callable[[], None]] = {}
        self.can_coalesce = False
        self._last_id = 0
        self._pending: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._is_over = False

    async def serve(self, take: Callable[[Session, dict[str, Json]], bool]) -> None:
        """`take` answers a message, and says whether that used up its id."""
        self.home.life.connections.add(self)
        writer = asyncio.create_task(self._write())
        try:
            await self._socket.accept()
            if await self._authenticated():
                await self._read(take)
            await self._finish()
        except (WebSocketDisconnect, ConnectionError):
            pass
        finally:
            self._end()
            writer.cancel()
            await asyncio.wait({writer})

    def abort(self) -> None:
        """The connection breaks without a closing word."""
        self._end()
        self._cut()

    def send(self, message: dict[str, Json]) -> None:
        self.send_bytes(orjson.dumps(message))

    def send_bytes(self, message: bytes) -> None:
        if self._is_over:
            return
        if len(self._pending) >= PENDING_MAX:
            self.abort()
            return
        self._pending.append(message)
        self._news.set()

    def result(self, number: int, result: Json = None) -> None:
        self.send({"id": number, "type": "result", "success": True, "result": result})

    def error(self, number: int | None, error: dict[str, Json]) -> None:
        self.send({"id": number, "type": "result", "success": False, "error": error})

    async def _authenticated(self) -> bool:
        version = self.home.version
        await self._say({"type": "auth_required", "ha_version": version})
        try:
            async with asyncio.timeout(self.home.auth_s):
                message = orjson.loads(await self._socket.receive_text())
        except TimeoutError:
            self.abort()
            return False
        except (ValueError, KeyError):
            return False
        problem = _misformed(message)
        if problem:
            await self._say({"type": "auth_invalid", "message": f"Auth message incorrectly formatted: {problem}"})
            return False
        self.user = self.home.users.by_token(message.get("access_token", ""))
        if self.user is None:
            await self._say({"type": "auth_invalid", "message": "Invalid access token or password"})
            return False
        await self._say({"type": "auth_ok", "ha_version": version})
        return True

    async def _read(self, take: Callable[[Session, dict[str, Json]], bool]) -> None:
        while True:
            text = await self._socket.receive_text()
            await self.home.life.speaking.wait()
            try:
                received = orjson.loads(text)
            except ValueError:
                return
            for message in received if isinstance(received, list) else [received]:
                self._take_one(message, take)

    def _take_one(self, message: Json, take: Callable[[Session, dict[str, Json]], bool]) -> None:
        number = message.get("id") if isinstance(message, dict) else 0
        if not number or type(number) is not int or not isinstance(message.get("type"), str) or not message["type"]:
            self.error(number, {"code": "invalid_format", "message": "Message incorrectly formatted."})
        elif number <= self._last_id:
            self.error(number, {"code": "id_reuse", "message": "Identifier values have to increase."})
        elif take(self, message):
            self._last_id = number

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            await self.home.life.speaking.wait()
            while self._pending:
                messages = [self._pending.popleft()]
                if self.can_coalesce:
                    messages += self._pending
                    self._pending.clear()
                frame = messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"
                with suppress(WebSocketDisconnect, RuntimeError):
                    await self._socket.send_text(frame.decode())
            self._news.clear()

    async def _say(self, message: dict[str, Json]) -> None:
        await self._socket.send_text(orjson.dumps(message).decode())

    async def _finish(self) -> None:
        if not self._is_over:
            with suppress(RuntimeError):
                await self._socket.close(NORMAL)

    def _end(self) -> None:
        self._is_over = True
        self.home.life.connections.discard(self)
        for end in self.subscriptions.values():
            end()
        self.subscriptions.clear()


def _misformed(message: Json) -> str:
    """The real server's answer to a first message that is no `auth`."""
    if not isinstance(message, dict):
        return f"expected a dictionary. Got {message!r}"
    extra = [key for key in message if key not in ("type", "access_token", "api_password")]
    problems = [f"extra keys not allowed @ data['{key}']. Got {message[key]!r}" for key in extra]
    if message.get("type") != "auth":
        problems.append(f"not a valid value for dictionary value @ data['type']. Got {message.get('type')!r}")
    if not isinstance(message.get("access_token", ""), str):
        problems.append(f"expected str for dictionary value @ data['access_token']. Got {message['access_token']!r}")
    return "\n".join(problems)
