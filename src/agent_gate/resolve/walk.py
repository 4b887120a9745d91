"""A path walked name by name without following any link blindly: where it ends, or where it stops existing."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass
from functools import cache

from agent_gate.resolve.openat2 import O_PATH

LINKS_MAX = 40
"""As many as the kernel follows."""

_OPEN = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Walked:
    """An open descriptor of the last thing that is there, its names from the root, and what is not there."""

    descriptor: int
    names: tuple[str, ...]
    rest: tuple[str, ...] = ()
    """Names that lead on from it; links among those that were passed are already replaced by where they lead."""
    error: int = 0
    """The reason why it went no further."""
    by_link: bool = False
    """True where the last name of the path is a link that leads to nothing."""


def walk(path: str) -> Walked:
    """Walk an absolute path; OSError with ELOOP where it leads through a link of /proc, or through too many."""
    return _Walk(path).result()


class _Walk:
    def __init__(self, path: str) -> None:
        self._ahead = deque(_names(path))
        self._names: list[str] = []
        self._open = [os.open("/", O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        """Every directory on the way, so that `..` leads back to where it was entered from."""
        self._links = 0
        self._last_was_link = False

    def result(self) -> Walked:
        error = 0
        try:
            while self._ahead and not error:
                error = self._step(self._ahead.popleft())
            return self._ended(error)
        finally:
            for descriptor in self._open:
                os.close(descriptor)

    def _ended(self, error: int) -> Walked:
        by_link = bool(error) and self._last_was_link
        return Walked(self._open.pop(), tuple(self._names), tuple(self._ahead), error, by_link)

    def _step(self, name: str) -> int:
        """One name further; an error number, with the name put back, where that cannot be."""
        if name == "..":
            if not stat.S_ISDIR(os.fstat(self._open[-1]).st_mode):
                self._ahead.appendleft(name)
                return errno.ENOTDIR
            if len(self._open) > 1:
                os.close(self._open.pop())
                self._names.pop()
            return 0
        try:
            descriptor = os.open(name, _OPEN, dir_fd=self._open[-1])
        except OSError as error:
            self._ahead.appendleft(name)
            return error.errno or errno.EIO
        kind = os.fstat(descriptor)
        if stat.S_ISLNK(kind.st_mode):
            os.close(descriptor)
            return self._follow(name, kind.st_dev)
        self._open.append(descriptor)
        self._names.append(name)
        return 0

    def _follow(self, name: str, device: int) -> int:
        self._links += 1
        if self._links > LINKS_MAX or device == _proc_device():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self._open[-1])
        if not self._ahead:
            self._last_was_link = True
        if target.startswith("/"):
            for descriptor in self._open[1:]:
                os.close(descriptor)
            del self._open[1:]
            self._names.clear()
        self._ahead.extendleft(reversed(_names(target)))
        return 0


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


@cache
def _proc_device() -> int | None:
    try:
        return os.stat("/proc").st_dev
    except OSError:
        return None
