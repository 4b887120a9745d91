"""A small HTTP server on loopback that answers forms with JSON, and whose connections can be cut at any moment."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Self
from urllib.parse import parse_qs


class Loopback(ABC):
    def __init__(self) -> None:
        self.is_down = False
        """Connections are taken and ended at once."""
        self.url = ""
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[Any]] = {}

    @abstractmethod
    async def respond(self, path: str, fields: Mapping[str, str]) -> tuple[int, Any] | None:
        """Status and content; None where the connection is to end without an answer."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            server.close()
            tasks = list(self._connections.values())
            await self.go_down()
            await asyncio.gather(*tasks)
            await server.wait_closed()

    async def go_down(self) -> None:
        self.is_down = True
        for writer in list(self._connections):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[writer] = task
        try:
            while not self.is_down and await self._answered(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._connections[writer]
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection is good for another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        body = (await reader.readexactly(int(lengths[0]))).decode() if lengths else ""
        path, _, query = head.split(" ", 2)[1].partition("?")
        given = parse_qs("&".join(filter(None, (query, body))), keep_blank_values=True)
        answer = await self.respond(path, {key: values[0] for key, values in given.items()})
        if answer is None:
            return False
        payload = json.dumps(answer[1]).encode()
        writer.write(f"HTTP/1.1 {answer[0]} X\r\nContent-Length: {len(payload)}\r\n\r\n".encode() + payload)
        await writer.drain()
        return True
