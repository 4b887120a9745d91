"""Directories in which names are exchanged: opened once, each the very one that its path says."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import suppress
from functools import cache
from typing import Self

from agent_gate.resolve.descriptors import real_name
from agent_gate.resolve.openat2 import O_PATH
from agent_gate.resolve.trees import remove_tree

_DIRECTORY = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_REPLACE, _EXCHANGE = 1, 2
OPEN_MAX = 128


class Folders:
    """Open directories by path; the oldest gives way to the next where there are many."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def of(self, path: str) -> tuple[int, str]:
        """The directory that a path lies in, and its name there; NotADirectoryError where a link leads elsewhere."""
        folder, name = os.path.split(path)
        number = self._open.get(folder)
        if number is None:
            if len(self._open) >= OPEN_MAX:
                os.close(self._open.pop(next(iter(self._open))))
            number = _open_directory(folder)
            self._open[folder] = number
        return number, name

    def status(self, path: str) -> os.stat_result | None:
        """Of what stands at a path; None where nothing does."""
        try:
            number, name = self.of(path)
            return os.stat(name, dir_fd=number, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def move(self, path: str, to: str) -> None:
        """Another name in the same directory, which must be free."""
        number, name = self.of(path)
        _rename(number, name, to, _NO_REPLACE)

    def move_in(self, name: str, path: str) -> None:
        number, final = self.of(path)
        _rename(number, name, final, _NO_REPLACE)

    def exchange(self, path: str, other: str) -> None:
        """Exchange what stands at the path with what stands beside it, in one step."""
        number, name = self.of(path)
        _rename(number, name, other, _EXCHANGE)

    def remove_tree(self, path: str) -> None:
        """Whatever it is, with all below it, though its directory may not be written any more; no link is followed."""
        number, name = self.of(path)
        with suppress(FileNotFoundError):
            try:
                remove_tree(name, number)
            except PermissionError:
                mode = stat.S_IMODE(os.fstat(number).st_mode)
                os.chmod(f"/proc/self/fd/{number}", mode | stat.S_IRWXU)
                try:
                    remove_tree(name, number)
                finally:
                    os.chmod(f"/proc/self/fd/{number}", mode)


def beside(path: str, name: str) -> str:
    return f"{os.path.dirname(path).rstrip('/')}/{name}"


def _open_directory(folder: str) -> int:
    number = os.open(folder or "/", _DIRECTORY)
    if real_name(number) != (folder or "/"):
        os.close(number)
        raise NotADirectoryError(errno.ENOTDIR, "another directory is in its place", folder)
    return number


def _rename(folder: int, name: str, to: str, flags: int) -> None:
    if _renameat2()(folder, os.fsencode(name), folder, os.fsencode(to), flags) != 0:
        number = ctypes.get_errno()
        if number == errno.EINVAL and flags == _EXCHANGE:
            raise OSError(number, "its file system cannot exchange two names", name)
        raise OSError(number, os.strerror(number), name)


@cache
def _renameat2() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None, use_errno=True).renameat2
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call


def sync_file_systems(paths: list[str]) -> None:
    """Make durable what lies in these directories: once for each file system, however many files there are."""
    seen: set[int] = set()
    for path in paths:
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            device = os.fstat(number).st_dev
            if device not in seen:
                seen.add(device)
                _syncfs(number)
        finally:
            os.close(number)


def _syncfs(number: int) -> None:
    if ctypes.CDLL(None, use_errno=True).syncfs(number) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
