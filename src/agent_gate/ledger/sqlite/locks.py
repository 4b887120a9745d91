"""Advisory file locks: one writer at a time, a sign of life for each process, one mover of a project's state."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from agent_gate.ledger.files import LedgerFiles, open_private
from agent_gate.model.bounds import LOCK_WAIT_S
from agent_gate.model.errors import StorageError

_descriptors: set[int] = set()
"""Of locks that last: a fork that kept one would hold the lock when its parent is gone."""


def _open_lock(path: Path) -> int:
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    _descriptors.add(descriptor)
    return descriptor


def _close_lock(descriptor: int) -> None:
    _descriptors.discard(descriptor)
    os.close(descriptor)


def _let_go_in_fork() -> None:
    while _descriptors:
        os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_let_go_in_fork)


class WriterLock:
    """Held for every write, checkpoint and close, by whichever process: the linked SQLite may need it."""

    def __init__(self, files: LedgerFiles, wait_s: float = LOCK_WAIT_S) -> None:
        self._wait_s = wait_s
        self._descriptor = _open_lock(files.writer_lock)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Bounded, because the process that holds it may have been stopped."""
        _wait_for(self._descriptor, self._wait_s)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        _close_lock(self._descriptor)


class InstanceLock:
    """Held for a process's life; take it under the writer lock, so that nobody sees the file before the lock."""

    def __init__(self, files: LedgerFiles, instance: str) -> None:
        self._path = files.instance_lock(instance)
        self._descriptor = _open_lock(self._path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        with suppress(OSError):  # what stays is swept away by the next process that opens the ledger
            self._path.unlink()
        _close_lock(self._descriptor)


def is_gone(files: LedgerFiles, instance: str) -> bool:
    """Tell whether the process that wrote this instance id has ended.

    Under the writer lock, or for an instance that the ledger already names: it had its lock before it could write.
    """
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


def remove_locks_of_the_gone(files: LedgerFiles) -> None:
    """Remove what killed processes left; call it under the writer lock, when nothing of theirs is open any more."""
    for path in files.instance_locks():
        if is_gone(files, path.stem):
            with suppress(OSError):
                path.unlink()


class ProjectLocks:
    """One mover of a project's state at a time, whichever task and process."""

    def __init__(self, files: LedgerFiles, wait_s: float = LOCK_WAIT_S) -> None:
        self._files, self._wait_s = files, wait_s

    @asynccontextmanager
    async def held(self, project: str) -> AsyncIterator[None]:
        descriptor = await self.take(project)
        try:
            yield
        finally:
            release(descriptor)

    async def take(self, project: str) -> int:
        """The lock, until it is released.

        Who waits for it has the lock of the queue meanwhile, so that who has just released it comes after them.
        """
        queue = await self._locked(self._files.project_queue(project), project)
        try:
            return await self._locked(self._files.project_lock(project), project)
        finally:
            release(queue)

    async def _locked(self, path: Path, project: str) -> int:
        """Opened anew each time, because there may be more projects than a process may have files open."""
        try:
            descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(f"cannot lock project `{project}`: {error.strerror}") from error
        try:
            await _lock(descriptor, project, self._wait_s)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def release(descriptor: int) -> None:
    """Closing alone would leave the lock with a process that a tool has forked meanwhile."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _wait_for(descriptor: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    pause = 0.0001
    while not _is_taken(descriptor):
        if time.monotonic() > deadline:
            raise StorageError(
                f"another process has held the writer lock for {wait_s:g} s", suggestion="see which: lslocks"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.001)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _lock(descriptor: int, project: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    pause = 0.0005
    while not _is_taken(descriptor):
        if time.monotonic() > deadline:
            raise StorageError(f"another process holds the lock of project `{project}`", suggestion="try again later")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.003)
