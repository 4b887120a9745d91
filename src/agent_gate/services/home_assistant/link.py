"""One authenticated WebSocket to a home, from its handshake to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from json import JSONDecodeError
from typing import Any, TypeAlias

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agent_gate.model.bounds import HOME_ANSWER_S
from agent_gate.model.codec import restore
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.dialling import dial
from agent_gate.services.home_assistant.faults import Lost, Refused

EventHandler: TypeAlias = Callable[[Mapping[str, Json]], None]
"""Is quick, and is called in the order in which the server spoke."""

_MESSAGES_AT_ONCE = 500
"""Of one frame, before others get their turn."""
_log = logging.getLogger(__name__)


@asynccontextmanager
async def linked(address: Address, token: str, bounds: HomeBounds = DEFAULT_BOUNDS) -> AsyncIterator[Link]:
    """AuthRefused where the token is not good; Lost where there is no home behind the address."""
    try:
        async with asyncio.timeout(bounds.handshake_s):
            socket, version = await dial(address, token)
    except TimeoutError:
        raise Lost("it did not answer in time", sent=False) from None
    link = Link(socket, version, bounds.goodbye_s)
    try:
        with suppress(Refused):  # an old server knows no features, and sends each message alone
            await link.command("supported_features", features={"coalesce_messages": 1})
        yield link
    finally:
        await link.close()


class Link:
    """Made by `linked`; of no use once it has ended."""

    def __init__(self, socket: ClientConnection, version: str, goodbye_s: float) -> None:
        self.version, self._goodbye_s = version, goodbye_s
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the connection is, with the reason."""
        self._socket = socket
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._in_order: dict[int, Callable[[Json], None]] = {}
        self._subscriptions: dict[int, EventHandler] = {}
        self._reader = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return not self.ended.done()

    async def command(
        self,
        type: str,  # noqa: A002 -- the wire's own word, and fields have other names
        *,
        timeout_s: float = HOME_ANSWER_S,
        in_order: Callable[[Json], None] | None = None,
        **fields: Json,
    ) -> Json:
        """The result; Refused where the server says no, Lost where it does not say.

        `in_order` gets the result before anything is heard that was said after it.
        """
        if not self.is_open:
            raise Lost(self.ended.result(), sent=False)
        self._last_id += 1
        number = self._last_id
        text = orjson.dumps({"id": number, "type": type, **fields})
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        if in_order is not None:
            self._in_order[number] = in_order
        try:
            async with asyncio.timeout(timeout_s):
                await self._socket.send(text, text=True)
                return await answer
        except TimeoutError:
            raise Lost(f"`{type}` was not answered within {timeout_s:g} s", sent=True) from None
        except ConnectionClosed:
            raise Lost("the connection was lost", sent=True) from None
        finally:
            self._waiting.pop(number, None)
            self._in_order.pop(number, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # seen, also where sending failed first

    async def subscribe(self, event_type: str, handler: EventHandler) -> int:
        """The number of the subscription."""
        number = self._last_id + 1
        self._subscriptions[number] = handler
        try:
            await self.command("subscribe_events", event_type=event_type)
        except BaseException:
            self._subscriptions.pop(number, None)
            raise
        return number

    async def unsubscribe(self, number: int) -> None:
        if self._subscriptions.pop(number, None) is not None:
            await self.command("unsubscribe_events", timeout_s=self._goodbye_s, subscription=number)

    async def ping(self, timeout_s: float) -> None:
        """Lost where no pong comes in time."""
        await self.command("ping", timeout_s=timeout_s)

    async def close(self) -> None:
        """Subscriptions first, as good manners have it; all within a bounded time."""
        if self.is_open:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._goodbye_s):
                    await asyncio.gather(*map(self.unsubscribe, list(self._subscriptions)), return_exceptions=True)
        await self._socket.close()
        self._reader.cancel()
        await asyncio.wait({self._reader})
        self._end("it was closed")

    async def _read(self) -> None:
        """Only parses and hands over: a server ends a connection that does not keep up."""
        try:
            while True:
                heard = restore(await self._socket.recv(decode=False))
                messages = heard if isinstance(heard, list) else [heard]
                for place, message in enumerate(messages, 1):
                    if isinstance(message, dict):
                        self._take(message)
                    if place % _MESSAGES_AT_ONCE == 0:
                        await asyncio.sleep(0)
        except ConnectionClosed as closed:
            self._end(_told(closed))
        except JSONDecodeError:
            self._end("what the server says is not JSON")
        except Exception as error:
            _log.error("a message of home assistant could not be taken: %s", type(error).__name__)
            self._end("what the server says cannot be understood")

    def _take(self, message: dict[str, Any]) -> None:
        number, kind = message.get("id"), message.get("type")
        if kind == "event":
            handler = self._subscriptions.get(number) if isinstance(number, int) else None
            if handler is not None and isinstance(message.get("event"), dict):
                handler(message["event"])
        elif isinstance(number, int) and (answer := self._waiting.get(number)) and not answer.done():
            self._answer(number, answer, message)

    def _answer(self, number: int, answer: asyncio.Future[Json], message: dict[str, Any]) -> None:
        if message.get("type") == "pong":
            answer.set_result(None)
        elif message.get("success"):
            self._in_order.get(number, _nobody)(message.get("result"))
            answer.set_result(message.get("result"))
        else:
            answer.set_exception(_refusal(message.get("error")))

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Lost("the connection was lost", sent=True))


def _nobody(_: Json) -> None:
    """Most results are not waited for in order."""


def _refusal(error: Json) -> Refused:
    told = error if isinstance(error, dict) else {}
    reason, message = str(told.get("code") or "unknown_error"), str(told.get("message") or "")
    if message == "Unauthorized":  # some commands give it another code
        reason = "unauthorized"
    hint = "the gate's token may not do this; an administrator's may" if reason == "unauthorized" else ""
    return Refused(reason, message, suggestion=hint)


def _told(closed: ConnectionClosed) -> str:
    received = closed.rcvd
    if received is None:
        return "the connection was lost"
    return f"the server closed the connection ({received.code})"
