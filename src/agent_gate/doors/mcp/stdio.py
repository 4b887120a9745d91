"""MCP over standard input and output: one message a line, and nothing else on the wire."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.mcp.lines import Lines, TooLong
from agent_gate.model.bounds import DRAIN_S, GOODBYE_S, MESSAGE_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.tool import Json

Given: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]


@contextmanager
def protocol_pipes() -> Iterator[tuple[int, int]]:
    """Descriptors of our own for both; whoever else reads gets nothing, and prints to standard error."""
    reading, writing = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        yield reading, writing
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()  # what was printed and still waits in a buffer is not the client's
        # Not closed: a thread may still read or write there.
        os.dup2(reading, 0)
        os.dup2(writing, 1)


class Unreadable(Exception):
    """A line that is no message, with the error that answers it."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        super().__init__(text)
        self.answer = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=text))


class Conversation:
    """One client's messages and their answers, until either side ends it."""

    def __init__(self, door: McpDoor, lines: Lines, ended: asyncio.Event) -> None:
        self._door, self._lines, self._ended = door, lines, ended
        self._unanswered: Counter[str] = Counter()
        """By id: nothing keeps a client from using one for several requests."""
        self._answered = asyncio.Event()

    async def hold(self) -> None:
        """Until the client closes its end, or `ended` is set; calls that run are answered first, within bounds."""
        given, taking = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answers, giving = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._door.server
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        intake = asyncio.create_task(self._take_in(given, answers.clone()))
        output = asyncio.create_task(self._give_out(giving))
        try:
            async with self._door.watching():
                await server.run(taking, answers, options)
        finally:
            intake.cancel()
            await asyncio.wait({intake})
            await asyncio.wait({output}, timeout=GOODBYE_S)
            output.cancel()
            await asyncio.wait({output})

    async def _take_in(self, given: Given, answers: MemoryObjectSendStream[SessionMessage]) -> None:
        """Messages to the server; when there are no more, its end, after what is under way."""
        reading = asyncio.create_task(self._read(given, answers))
        ending = asyncio.create_task(self._ended.wait())
        async with given, answers:
            try:
                await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
                self._door.close()
                async with asyncio.timeout(DRAIN_S):
                    await self._until_unanswered_are_below(1)
            except TimeoutError:
                return
            finally:
                reading.cancel()
                ending.cancel()
                await asyncio.wait({reading, ending})

    async def _read(self, given: Given, answers: MemoryObjectSendStream[SessionMessage]) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the other end is gone already
            async for line in self._lines:
                if isinstance(line, TooLong) or line.strip():
                    await self._pass_on(line, given, answers)

    async def _pass_on(
        self, line: bytes | TooLong, given: Given, answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        try:
            message = message_in(line)
        except Unreadable as error:
            self._unanswered[str(error.answer.id)] += 1
            await answers.send(SessionMessage(error.answer))
            return
        await self._until_unanswered_are_below(REQUESTS_IN_FLIGHT_MAX)
        self._note(message)
        await given.send(SessionMessage(message))

    def _note(self, message: JSONRPCMessage) -> None:
        """A request that is cancelled gets no answer, and a subscription only when it ends."""
        if isinstance(message, JSONRPCRequest) and message.method != "subscriptions/listen":
            self._unanswered[str(message.id)] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._discard((message.params or {}).get("requestId"))

    def _discard(self, id: Json) -> None:
        self._unanswered -= Counter((str(id),))
        self._answered.set()

    async def _until_unanswered_are_below(self, count: int) -> None:
        while self._unanswered.total() >= count:
            self._answered.clear()
            await self._answered.wait()

    async def _give_out(self, giving: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with giving:
            try:
                async for answer in giving:
                    message = answer.message
                    await self._lines.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                    if isinstance(message, JSONRPCResponse | JSONRPCError):
                        self._discard(message.id)
            except OSError:  # nobody reads any more
                self._ended.set()


def message_in(line: bytes | TooLong) -> JSONRPCMessage:
    """Parse a line as strictly as at every door."""
    if isinstance(line, TooLong):
        raise Unreadable(INVALID_REQUEST, f"a message may hold {MESSAGE_BYTES_MAX} bytes")
    try:
        value = parse(line)
    except CodecError as error:
        raise Unreadable(PARSE_ERROR, f"not a message: {error}") from None
    if type(value) is not dict:
        raise Unreadable(INVALID_REQUEST, "a message is one object; batches are not taken")
    id = value.get("id")
    if "method" in value and "id" in value and type(id) not in (int, str):
        # The library would take it for a notification, and not answer.
        raise Unreadable(INVALID_REQUEST, "the `id` of a request is a text or an integer")
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        known = id if type(id) in (int, str) else None
        raise Unreadable(INVALID_REQUEST, "not a message of JSON-RPC 2.0", known) from None
