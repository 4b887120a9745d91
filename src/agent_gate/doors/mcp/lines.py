"""Lines over a pair of descriptors of whatever kind, read and written by threads of their own.

A thread that waits for a line cannot be ended, so these do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from agent_gate.model.bounds import MESSAGE_BYTES_MAX, PIPE_CHUNK_BYTES, PIPE_CHUNKS_MAX


class TooLong:
    """A line that holds more than a message may."""


class Lines:
    """Within one event loop; what is read and not looked at yet, and what is not written yet, is bounded."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(PIPE_CHUNKS_MAX)
        self._unwritten: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._turn = asyncio.Lock()
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"mcp{work.__name__}", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[bytes | TooLong]:
        """Each line without its end, until there is no more to read."""
        line, is_too_long = bytearray(), False
        while chunk := await self._chunk():
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                line += part
                yield TooLong() if is_too_long or len(line) > MESSAGE_BYTES_MAX else bytes(line)
                line, is_too_long = bytearray(), False
            line += rest
            if len(line) > MESSAGE_BYTES_MAX:
                line, is_too_long = bytearray(), True
        if line or is_too_long:
            yield TooLong() if is_too_long else bytes(line)

    async def _chunk(self) -> bytes:
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    async def write(self, line: bytes) -> None:
        """Returns when it is written; OSError where nobody reads any more."""
        async with self._turn:
            written: asyncio.Future[None] = self._loop.create_future()
            self._unwritten.put((line + b"\n", written))
            await written

    def _read(self) -> None:
        chunk = b" "
        while chunk:
            self._room.acquire()
            try:
                chunk = _read_some(self._reading)
            except OSError:
                chunk = b""
            self._tell(self._chunks.put_nowait, chunk)

    def _write(self) -> None:
        while True:
            data, written = self._unwritten.get()
            try:
                while data:
                    data = data[_write_some(self._writing, data) :]
            except OSError as error:
                self._tell(_fail, written, error)
            else:
                self._tell(_succeed, written)

    def _tell(self, what: Callable[..., Any], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return


def _read_some(number: int) -> bytes:
    """Waits also where whoever shares the descriptor has set it not to."""
    while True:
        try:
            return os.read(number, PIPE_CHUNK_BYTES)
        except BlockingIOError:
            select.select((number,), (), ())


def _write_some(number: int, data: bytes) -> int:
    while True:
        try:
            return os.write(number, data)
        except BlockingIOError:
            select.select((), (number,), ())


def _succeed(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


def _fail(written: asyncio.Future[None], error: OSError) -> None:
    if not written.done():
        written.set_exception(error)
