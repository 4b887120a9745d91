"""Two houses that speak the same protocol, the simulated and the real one, and a client that says what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agent_gate.simulated_home import Running, User
from tests.gates import PATIENCE_S, soon
from tests.real.homes import RealHome

Message = dict[str, Any]


@dataclass(frozen=True)
class House:
    of: Running | RealHome
    url: str
    ws_url: str
    token: str
    limited_token: str
    readonly_token: str
    version: str = "2024.3.3"

    @classmethod
    def named(cls, of: Running | RealHome) -> House:
        return cls(of, of.url, of.ws_url, of.token, of.limited_token, of.readonly_token)

    @property
    def is_real(self) -> bool:
        return isinstance(self.of, RealHome)

    async def rest(self, method: str, path: str, *, token: str = "", **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token or self.token}", "Accept-Encoding": "identity"}
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=PATIENCE_S) as client:
            return await client.request(method, path, headers=headers, **options)

    async def new_token(self) -> str:
        """Of an admin, good until it is revoked."""
        if isinstance(self.of, Running):
            user = User("another owner", "admin")
            self.of.home.users.add(user)
            return user.token
        async with a_raw(self) as raw:
            return str(await raw.ask("auth/long_lived_access_token", client_name="to be revoked", lifespan=1))

    async def revoke(self, token: str) -> None:
        if isinstance(self.of, Running):
            self.of.home.revoke_token(token)
            return
        async with a_raw(self) as raw:
            tokens = await raw.ask("auth/refresh_tokens")
            mine = next(one for one in tokens if one["client_name"] == "to be revoked")
            await raw.ask("auth/delete_refresh_token", refresh_token_id=mine["id"])


@dataclass
class Raw:
    """A connection that says exactly what a test wants, and keeps every event that it was told of."""

    connection: ClientConnection
    events: list[Message] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)
    """Everything that came, objects and lists."""
    last_id: int = 0

    async def say(self, message: object) -> None:
        """Text as it is, anything else as JSON."""
        await self.connection.send(message if isinstance(message, str) else json.dumps(message))

    async def hear(self) -> Any:
        """The next frame, whatever it is."""
        frame = json.loads(await soon(self.connection.recv()))
        self.frames.append(frame)
        self.events += [one for one in _unpacked(frame) if one.get("type") == "event"]
        return frame

    async def begin(self, command: str, **fields: Any) -> int:
        self.last_id += 1
        await self.say({"id": self.last_id, "type": command, **fields})
        return self.last_id

    async def answer_to(self, number: int) -> Message:
        while True:
            for one in _unpacked(await self.hear()):
                if one.get("id") == number and one.get("type") != "event":
                    return one

    async def reply(self, command: str, **fields: Any) -> Message:
        """The whole answer to a command, success or not."""
        return await self.answer_to(await self.begin(command, **fields))

    async def ask(self, command: str, **fields: Any) -> Any:
        answer = await self.reply(command, **fields)
        assert answer["success"], answer
        return answer["result"]

    async def refused(self, command: str, **fields: Any) -> Message:
        answer = await self.reply(command, **fields)
        assert not answer["success"], answer
        error: Message = answer["error"]
        return error

    async def call(self, service: str, target: Mapping[str, Any] | None = None, **data: Any) -> Any:
        return await self.ask("call_service", **a_call(service, target, **data))

    async def set(self, states: Mapping[str, str]) -> None:
        """Bring lights and the like to `on` or `off`, and locks and windows to what they are asked for."""
        for entity_id, state in states.items():
            domain = entity_id.partition(".")[0]
            name = {"locked": "lock", "unlocked": "unlock", "closed": "close_cover", "open": "open_cover"}
            await self.call(f"{domain}.{name.get(state, f'turn_{state}')}", {"entity_id": entity_id})

    async def states(self) -> dict[str, Message]:
        return {state["entity_id"]: state for state in await self.ask("get_states")}

    async def event(self, matches: Callable[[Message], bool]) -> Message:
        """The first event of those that came or will come that matches."""
        while True:
            for one in self.events:
                if matches(one["event"]):
                    event: Message = one["event"]
                    return event
            await self.hear()

    async def closed(self) -> int | None:
        """The code with which the server ends it; None where it just breaks."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.hear()
        received = self.connection.protocol.close_rcvd
        return received.code if received else None


def _unpacked(frame: Any) -> list[Message]:
    return frame if isinstance(frame, list) else [frame]


def a_call(service: str, target: Mapping[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    """The fields of `call_service`."""
    domain, _, name = service.partition(".")
    fields: dict[str, Any] = {"domain": domain, "service": name}
    if "return_response" in data:
        fields["return_response"] = data.pop("return_response")
    if target is not None:
        fields["target"] = dict(target)
    return {**fields, **({"service_data": data} if data else {})}


@asynccontextmanager
async def a_connection(house: House, **options: Any) -> AsyncIterator[Raw]:
    """Nothing is said yet; the server has."""
    given = {"max_size": None, "close_timeout": 1, "proxy": None, "compression": None, **options}
    async with connect(house.ws_url, **given) as connection:
        raw = Raw(connection)
        assert await raw.hear() == {"type": "auth_required", "ha_version": house.version}
        yield raw


@asynccontextmanager
async def a_raw(house: House, token: str = "", *, coalesce: bool = False, **options: Any) -> AsyncIterator[Raw]:
    async with a_connection(house, **options) as raw:
        await raw.say({"type": "auth", "access_token": token or house.token})
        assert await raw.hear() == {"type": "auth_ok", "ha_version": house.version}
        if coalesce:
            await raw.ask("supported_features", features={"coalesce_messages": 1})
        yield raw


async def eventually(holds: Callable[[], Any]) -> Any:
    """The first truth that an asynchronous question gives."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(httpx2.TransportError, OSError, ConnectionClosed):
                found = await holds()
                if found:
                    return found
            await asyncio.sleep(0.05)
