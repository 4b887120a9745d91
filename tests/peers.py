"""Clients of other users: connections to a Unix socket that the kernel knows as theirs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_SETRESUID = {"x86_64": 117, "aarch64": 147}
_CHUNK_BYTES = 65_536


def can_be(uid: int) -> bool:
    return uid == os.geteuid() or (os.geteuid() == 0 and platform.machine() in _SETRESUID)


def connected_as(uid: int, path: Path) -> socket.socket:
    """A connection made by this user; PermissionError where the kernel does not let them.

    Made in a thread of its own: the kernel keeps users by thread, though the C library changes all of them at once.
    """
    made: list[socket.socket | OSError] = []

    def connect() -> None:
        if uid != os.geteuid():
            assert ctypes.CDLL(None, use_errno=True).syscall(_SETRESUID[platform.machine()], uid, uid, uid) == 0
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(os.fspath(path))
            made.append(connection)
        except OSError as error:
            connection.close()
            made.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


@asynccontextmanager
async def door_of(uid: int, path: Path, own: Path) -> AsyncIterator[Path]:
    """A socket at `own`, behind which everything goes on to `path` by a connection of that user's."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            further = await asyncio.open_unix_connection(sock=connected_as(uid, path))
        except OSError:
            writer.close()
            return
        for source, target in ((reader, further[1]), (further[0], writer)):
            task = asyncio.create_task(_pump(source, target))
            tasks.add(task)

    server = await asyncio.start_unix_server(serve, own)
    try:
        yield own
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()
