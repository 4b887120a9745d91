"""Advisory file locks: one writer at a time, a sign of life for each process, one mover of a project's state."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256

from agent_gate.ledger.files import LedgerFiles, open_private
from agent_gate.model.errors import StorageError
from agent_gate.model.limits import LOCK_WAIT_S


class WriterLock:
    """Held for every write, checkpoint and close, by whichever process: the linked SQLite may need it."""

    def __init__(self, files: LedgerFiles) -> None:
        self._descriptor = open_private(files.writer_lock, os.O_RDWR | os.O_CREAT)

    @contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


class InstanceLock:
    """Held for a process's life; take it under the writer lock, so that nobody sees the file before the lock."""

    def __init__(self, files: LedgerFiles, instance: str) -> None:
        self._path = files.instance_lock(instance)
        self._descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def is_gone(files: LedgerFiles, instance: str) -> bool:
    """Whether the process that wrote this instance id has ended; call it under the writer lock."""
    try:
        descriptor = os.open(files.instance_lock(instance), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class ProjectLocks:
    """One mover of a project's state at a time: first among this process's tasks, then among processes."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files = files
        self._tasks: dict[str, asyncio.Lock] = {}
        self._descriptors: dict[str, int] = {}

    @asynccontextmanager
    async def held(self, project: str) -> AsyncIterator[None]:
        async with self._tasks.setdefault(project, asyncio.Lock()):
            descriptor = self._open(project)
            await _lock(descriptor, project)
            try:
                yield
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _open(self, project: str) -> int:
        if project not in self._descriptors:
            name = sha256(project.encode()).hexdigest()[:16]
            path = self._files.directory / f"project-{name}.lock"
            self._descriptors[project] = open_private(path, os.O_RDWR | os.O_CREAT)
        return self._descriptors[project]


async def _lock(descriptor: int, project: str) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    pause = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StorageError(
                    f"another process holds the lock of project `{project}`", suggestion="try again later"
                ) from None
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.01)
