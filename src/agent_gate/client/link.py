"""One connection to a gate that mends itself: what was not answered is said again on the next one."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from agent_gate.model.codec import CodecError, canonical, restore
from agent_gate.model.errors import GateError, IdentityError, Problem, ToolError
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json

HANDSHAKE_S = 10.0
ANSWER_BYTES_MAX = 64 * 1_048_576
NOT_AUTHENTICATED: Final = -32005

_LOST = (OSError, EOFError, TimeoutError, ConnectionClosed, InvalidHandshake)


@dataclass(frozen=True, slots=True)
class Delays:
    first_s: float = 1.0
    """Between the first two attempts to connect; doubled each time."""
    longest_s: float = 30.0
    ask_again_s: float = 1.0
    """Before a request is repeated that a server about to end has put off."""


DEFAULT_DELAYS = Delays()


class GateUnreachable(ToolError):
    """The server cannot be reached, or went away before it said how a request ended."""

    default_code = 2006


@dataclass(slots=True)
class _Asked:
    """A request without its answer."""

    method: str
    params: Mapping[str, Json]
    answer: asyncio.Future[Json]
    repeatable: bool
    sent: bool = False

    @property
    def waits_for_person(self) -> bool:
        return "tool" in self.params and bool(self.params.get("wait", True))


class Link:
    """Connected for as long as the block runs."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ssl: SSLContext | None = None,
        patient: bool = False,
        delays: Delays = DEFAULT_DELAYS,
    ) -> None:
        """`patient`: a server that is not there yet is waited for, not raised as GateUnreachable."""
        self.url = websocket_url(url)
        self.agent_id, self.pending = "", 0
        """The agent's id by the gate's own word, and the number of results that waited at the last connect."""
        self._token, self._ssl, self._patient, self._delays = token, ssl, patient, delays
        self._asked: dict[int, _Asked] = {}
        self._next_id = 0
        self._connection: ClientConnection | None = None
        self._running: asyncio.Task[None] | None = None
        self._later: set[asyncio.TimerHandle] = set()
        self._failure: GateError | None = None

    async def open(self) -> None:
        if not self._patient:
            await self._connect()
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Calls that are under way go on at the gate; their outcomes wait there."""
        self._fail(GateUnreachable("the client was closed"))
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        if self._connection is not None:
            await self._connection.close()

    async def ask(self, method: str, params: Mapping[str, Json], *, repeatable: bool = True) -> Any:
        if self._failure is not None:
            raise self._failure
        if self._running is None:
            raise GateUnreachable("the client is not connected", suggestion="use `async with GateClient(…) as gate:`")
        asked = _Asked(method, params, asyncio.get_running_loop().create_future(), repeatable)
        self._next_id += 1
        number = self._next_id
        self._asked[number] = asked
        try:
            await self._send(number, asked)
            return await asked.answer
        finally:
            del self._asked[number]

    async def _send(self, number: int, asked: _Asked) -> None:
        """Now, if there is a connection; otherwise as soon as there is one."""
        message = {"jsonrpc": "2.0", "id": number, "method": asked.method, "params": asked.params}
        try:
            text = canonical(message).decode()
        except CodecError as error:
            raise ToolError(f"the arguments are not JSON: {error}", code=2002) from None
        if self._connection is not None:
            asked.sent = True
            with suppress(*_LOST):
                await self._connection.send(text)

    async def _run(self) -> None:
        """Stay connected."""
        delay_s = self._delays.first_s
        try:
            while True:
                if self._connection is not None:
                    delay_s = self._delays.first_s
                    await self._listen(self._connection)
                    self._lose_connection()
                    await asyncio.sleep(_jittered(delay_s))
                try:
                    await self._connect()
                except GateUnreachable:
                    await asyncio.sleep(_jittered(delay_s))
                    delay_s = min(delay_s * 2, self._delays.longest_s)
        except GateError as error:  # the token is not known any more: trying again leads nowhere
            self._fail(error)

    async def _connect(self) -> None:
        """Connected, known, and all that was not answered said again."""
        tls: dict[str, Any] = {} if self._ssl is None else {"ssl": self._ssl}
        try:
            connection = await connect(
                self.url,
                **tls,
                proxy=None,
                compression=None,
                open_timeout=HANDSHAKE_S,
                max_size=ANSWER_BYTES_MAX,
            )
        except (*_LOST, InvalidURI, ValueError) as error:
            reason = _reason(error)
            raise GateUnreachable(
                f"cannot connect to `{self.url}`: {reason}", suggestion=where_to_look(reason)
            ) from None
        try:
            await self._authenticate(connection)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        for number, asked in list(self._asked.items()):
            if not asked.answer.done():
                await self._send(number, asked)

    async def _authenticate(self, connection: ClientConnection) -> None:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "auth", "params": {"token": self._token}}
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await connection.send(canonical(hello).decode())
                answer = restore(_bytes(await connection.recv()))
        except _LOST as error:
            raise GateUnreachable(f"`{self.url}` went away: {_reason(error)}") from None
        if "error" in answer:
            refusal = answer["error"]
            if refusal["code"] == NOT_AUTHENTICATED:
                raise IdentityError(
                    "the gate does not know this token", suggestion="use one of an agent in the gate's configuration"
                )
            raise GateUnreachable(f"`{self.url}` refused: {refusal['message']}")
        self.agent_id, self.pending = answer["result"]["agent_id"], answer["result"]["pending"]

    async def _listen(self, connection: ClientConnection) -> None:
        with suppress(*_LOST):
            async for text in connection:
                self._take(restore(_bytes(text)))

    def _take(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        asked = self._asked.get(number) if isinstance(number, int) else None
        if asked is None or asked.answer.done():
            return
        if _is_put_off(message) and (asked.waits_for_person or "error" in message):
            self._ask_again(number, asked)
        elif "error" in message:
            asked.answer.set_exception(_error(message["error"]))
        else:
            asked.answer.set_result(message["result"])

    def _ask_again(self, number: Any, asked: _Asked) -> None:
        """The server is about to end: the next one knows the call by its request id."""

        def again() -> None:
            self._later.discard(timer)
            if number in self._asked and self._connection is not None:
                task = asyncio.ensure_future(self._send(number, asked))
                task.add_done_callback(lambda done: done.exception())

        asked.sent = False
        timer = asyncio.get_running_loop().call_later(self._delays.ask_again_s, again)
        self._later.add(timer)

    def _lose_connection(self) -> None:
        self._connection = None
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        for asked in self._asked.values():
            if asked.sent and not asked.repeatable and not asked.answer.done():
                asked.answer.set_exception(
                    GateUnreachable(
                        f"the connection was lost while `{asked.method}` was under way; it goes on at the gate",
                        code=2007,
                        suggestion="see the runs of the gate",
                    )
                )

    def _fail(self, error: GateError) -> None:
        self._failure = error
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(error)


class Refused(Exception):
    """An error whose data is the outcome of the call."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _error(told: Mapping[str, Any]) -> Exception:
    data = told.get("data") or {}
    if _is_outcome(data):
        return Refused(Outcome.from_json(data))
    if "error" in data:
        return GateError.of(Problem.from_json(data["error"]))
    return ToolError(str(told["message"]), code=2003 if told["code"] == -32603 else 2002)


def _is_put_off(message: Mapping[str, Any]) -> bool:
    """Tell whether the answer is only that the server does not wait any longer."""
    if "result" in message:
        result = message["result"]
        return isinstance(result, dict) and result.get("status") == "pending_approval" and not result.get("simulated")
    data = message["error"].get("data") or {}
    return _is_outcome(data) and data.get("error", {}).get("code") == 2006 and not data.get("call_id")


def _is_outcome(data: Mapping[str, Any]) -> bool:
    """Of a call, and not of a plan, which has those of its steps."""
    return "status" in data and "outcomes" not in data


def _jittered(delay_s: float) -> float:
    """Clients that lost the same server do not come back all at once."""
    return delay_s * random.uniform(0.5, 1.0)  # noqa: S311 -- no secret


def where_to_look(reason: str) -> str:
    """Suggest what most likely leads on, from why a server could not be reached."""
    if "certificate" in reason:
        return "trust its certificate: --ca FILE, or `ssl` of GateClient"
    if "wrong version number" in reason:
        return "does it speak TLS? without it write http://"
    if "without sending a response" in reason or "valid http response" in reason:
        return "does it speak TLS? with it write https://"
    return "is `agent-gate serve` running there?"


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno).lower()  # asyncio's own text tells of a call that failed
    return " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split()).lower()


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def websocket_url(url: str) -> str:
    """The door's address from whatever names the server: `http://host:port` will do."""
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname)
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable:
        raise GateUnreachable(f"`{url[:200]}` is no address of a server", suggestion="write wss://host:port")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path if parts.path not in ("", "/") else "/ws", "", ""))
