"""Lets the users of `allow_uids` in: asks the kernel who connects before it passes on a byte.

gRPC does not show who is at the other end of a Unix socket; so its own socket is private, and this one is for others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agent_gate.doors.policy_agent.place import FOR_ANYBODY, umask
from agent_gate.model.bounds import RELAY_CHUNK_BYTES, RELAY_CONNECTIONS_MAX

_CREDENTIALS = struct.Struct("iII")
_BACKLOG = 128
_log = logging.getLogger(__name__)


@asynccontextmanager
async def relaying(
    outer: Path, inner: Path, allowed_uids: Collection[int], connections_max: int = RELAY_CONNECTIONS_MAX
) -> AsyncIterator[None]:
    """While the block runs, whoever may come in at `outer` talks to `inner`."""
    relay = _Relay(inner, frozenset(allowed_uids), connections_max)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with umask(FOR_ANYBODY):
        listener.bind(os.fspath(outer))
    listener.listen(_BACKLOG)
    server = await asyncio.start_unix_server(relay.serve, sock=listener, limit=RELAY_CHUNK_BYTES)
    try:
        yield
    finally:
        server.close()
        await relay.close()


def peer_uid(connection: socket.socket) -> int:
    """The user that connected, as the kernel knows it."""
    size = _CREDENTIALS.size
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


class _Relay:
    def __init__(self, inner: Path, allowed_uids: frozenset[int], connections_max: int) -> None:
        self._inner, self._allowed_uids, self._max = inner, allowed_uids, connections_max
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            if self._may_enter(writer):
                with suppress(OSError):
                    await self._connect(reader, writer)
        finally:
            del self._serving[task]
            writer.close()

    def _may_enter(self, writer: asyncio.StreamWriter) -> bool:
        uid = peer_uid(writer.get_extra_info("socket"))
        if uid not in self._allowed_uids:
            _log.warning("user id %d is not in allow_uids: turned away", uid)
            return False
        if len(self._serving) > self._max:
            _log.warning("more than %d connections: one of user id %d is turned away", self._max, uid)
            return False
        return True

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._inner, limit=RELAY_CHUNK_BYTES)
        ways = [
            asyncio.ensure_future(_pass_on(reader, inner_writer)),
            asyncio.ensure_future(_pass_on(inner_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            inner_writer.close()
            await asyncio.gather(*ways, return_exceptions=True)

    async def close(self) -> None:
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(RELAY_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
