"""Fetching a key set: from a real server, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from agent_gate.chain.builtin.jwks import fetched
from agent_gate.chain.faults import PolicyFailure

ANSWERS = {
    "/keys": b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + b'{"keys":[]}',
    "/moved": b"HTTP/1.1 302 Found\r\nlocation: /keys\r\ncontent-length: 0\r\n\r\n",
    "/missing": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    "/large": b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300_000,
    "/endless": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000,
    "/cut": b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{",
    "/noise": b"\0\1\2\r\n\r\n",
}


@asynccontextmanager
async def a_server() -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        try:
            writer.write(ANSWERS[path])
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_key_set_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with a_server() as url:
        assert await fetched(f"{url}/keys") == b'{"keys":[]}'


@pytest.mark.parametrize("path", ["/moved", "/missing", "/large", "/endless", "/cut", "/noise"])
async def test_anything_else_is_a_failure(path: str) -> None:
    async with a_server() as url:
        with pytest.raises((PolicyFailure, httpx2.HTTPError)):
            await fetched(url + path)
