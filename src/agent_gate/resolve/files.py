"""Acts on a judged file: through its descriptor, within bounds, and taken back where they fail half-way."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_gate.model.errors import GateError, ToolError
from agent_gate.model.visible import visible
from agent_gate.resolve.descriptors import Descriptor, real_name
from agent_gate.resolve.openat2 import O_PATH
from agent_gate.resolve.paths import Target

_CHUNK_BYTES = 1_048_576
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755
"""Narrowed by the umask, as for any program."""
_DIRECTORY = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AS_IT_IS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""No flag that would make, empty or wait for anything."""


def read(target: Target, bytes_max: int) -> bytes:
    """The content of a file; ToolError 2005, and nothing of it, where there is more than the bound."""
    with _told(target, "read"):
        number = _reopen(target, os.O_RDONLY)
        try:
            return _content(number, target, bytes_max)
        finally:
            os.close(number)


def _content(number: int, target: Target, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := os.pread(number, min(_CHUNK_BYTES, bytes_max + 1 - size), size):
        chunks.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            raise ToolError(
                f"`{visible(target.path)}` has more than {bytes_max} bytes by now",
                code=2005,
                suggestion="raise max_size_bytes, or wait until nobody adds to it",
            )
    return b"".join(chunks)


class OpenFile:
    """An existing file, open for writing and locked against other gates until it is let go."""

    def __init__(self, target: Target, descriptor: Descriptor) -> None:
        self._target, self.descriptor = target, descriptor
        self._seen = os.fstat(descriptor.number)

    @classmethod
    def locked(cls, target: Target, *, append: bool) -> OpenFile | None:
        """None while somebody else holds the lock."""
        with _told(target, "written"):
            descriptor = Descriptor(_reopen(target, os.O_RDWR | (os.O_APPEND if append else 0)))
            try:
                fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if sys.platform == "linux" and real_name(descriptor.number) != target.path:
                    raise _moved(target)  # a command's commit put another in its place
                return cls(target, descriptor)
            except BlockingIOError:
                descriptor.leave()
                return None
            except BaseException:
                descriptor.leave()
                raise

    @property
    def size(self) -> int:
        return self._seen.st_size

    def content(self, bytes_max: int) -> bytes:
        with _told(self._target, "read"):
            return _content(self.descriptor.number, self._target, bytes_max)

    def tail(self, size: int) -> bytes:
        with _told(self._target, "read"):
            return os.pread(self.descriptor.number, size, max(0, self.size - size))

    def overwrite(self, data: bytes, previous: bytes) -> None:
        """`previous` comes back where the new content cannot be written whole."""
        number = self.descriptor.number
        with _told(self._target, "written"):
            self._refuse_if_changed()
            try:
                _reserve(number, len(data), self.size)
                _write_at(number, data)
                os.ftruncate(number, len(data))
                os.fsync(number)
            except OSError:
                os.ftruncate(number, len(previous))
                _write_at(number, previous)
                raise

    def append(self, data: bytes) -> None:
        number = self.descriptor.number
        with _told(self._target, "written"):
            self._refuse_if_changed()
            try:
                _write(number, data)
                os.fsync(number)
            except OSError:
                os.ftruncate(number, self.size)
                raise

    def cut(self, size: int) -> None:
        with _told(self._target, "written"):
            self._refuse_if_changed()
            os.ftruncate(self.descriptor.number, size)
            os.fsync(self.descriptor.number)

    def remove(self) -> None:
        """By its name, in the very directory that was judged, and only while the name still means this file."""
        folder, name = os.path.split(self._target.path)
        with _told(self._target, "removed"):
            self._refuse_if_changed()
            parent = os.open(folder, _DIRECTORY)
            try:
                named = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if real_name(parent) != folder or not os.path.samestat(named, self._seen):
                    raise _moved(self._target)
                os.unlink(name, dir_fd=parent)
                _sync_directory(parent)
            finally:
                os.close(parent)

    def _refuse_if_changed(self) -> None:
        now = os.fstat(self.descriptor.number)
        if (now.st_size, now.st_mtime_ns) != (self._seen.st_size, self._seen.st_mtime_ns):
            raise ToolError(
                f"`{visible(self._target.path)}` was changed by another program in this moment",
                suggestion="look at it, and call again",
            )


def create(target: Target, data: bytes) -> None:
    """A new file below the directory that was judged; what was made on the way is removed where it fails."""
    made: list[tuple[int, str]] = []
    opened: list[int] = []
    with _told(target, "created"):
        try:
            parent = target.descriptor.number
            for name in target.rest[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
                    made.append((parent, name))
                parent = os.open(name, _DIRECTORY, dir_fd=parent)
                opened.append(parent)
            _create_file(target, parent, data)
        except BaseException:
            for folder, name in reversed(made):
                with suppress(OSError):
                    os.rmdir(name, dir_fd=folder)
            raise
        finally:
            for number in opened:
                os.close(number)


def _create_file(target: Target, parent: int, data: bytes) -> None:
    name = target.rest[-1]
    number = os.open(name, _NEW_FILE, _FILE_MODE, dir_fd=parent)
    try:
        if sys.platform == "linux" and real_name(number) != target.path:
            raise _moved(target)
        _write(number, data)
        os.fsync(number)
        _sync_directory(parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=parent)
        raise
    finally:
        os.close(number)


def _reopen(target: Target, flags: int) -> int:
    """The very file that was judged, if it still has the name that was judged."""
    assert target.status is not None
    if sys.platform == "linux":
        number = os.open(f"/proc/self/fd/{target.descriptor.number}", flags | _AS_IT_IS)
    else:
        number = os.open(target.path, flags | _AS_IT_IS | os.O_NOFOLLOW)
    try:
        if not os.path.samestat(os.fstat(number), target.status) or (
            sys.platform == "linux" and real_name(number) != (target.copy or target.path)
        ):
            raise _moved(target)
    except BaseException:
        os.close(number)
        raise
    return number


def _reserve(number: int, size: int, present: int) -> None:
    """Find out that the disk is full before anything is lost."""
    if size > present and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(number, present, size - present)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def _write(number: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def _write_at(number: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(number, memoryview(data)[done:], done)


def _sync_directory(path_descriptor: int) -> None:
    """A new name is durable only when its directory is; where that cannot be read, it cannot be told to be."""
    with suppress(PermissionError):
        number = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path_descriptor)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _moved(target: Target) -> ToolError:
    return ToolError(f"`{visible(target.path)}` was moved or replaced after it was judged", suggestion="call again")


@contextmanager
def _told(target: Target, done: str) -> Iterator[None]:
    """Say an error of the system in the words of the gate."""
    try:
        yield
    except GateError:
        raise
    except FileExistsError:
        raise ToolError(
            f"`{visible(target.path)}` appeared after it was judged", suggestion="call again to overwrite it"
        ) from None
    except OSError as error:
        raise ToolError(f"`{visible(target.path)}` could not be {done}: {error.strerror or error}") from None
