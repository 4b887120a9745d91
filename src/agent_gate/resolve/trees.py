"""Removes whole trees, however deep they are and whatever their modes forbid; no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from uuid import uuid4

from agent_gate.resolve.openat2 import O_PATH

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL_MINE = 0o700


def remove_tree(path: str, folder: int | None = None) -> None:
    """Remove what stands at a path, with all below it; OSError where something of it cannot be removed.

    Directories are raised to just below the topmost before they are emptied: neither the length of a path, nor the
    number of open files, nor the depth of calls then sets a bound.
    """
    if not stat.S_ISDIR(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(path, dir_fd=folder)
        return
    with _opened(path, folder) as top:
        waiting = list(_emptied(top))
        raised, numbers = f"raised-{uuid4().hex}", count()
        while waiting:
            name = waiting.pop()
            with _opened(name, top) as number:
                for below in _emptied(number):
                    waiting.append(f"{raised}-{next(numbers)}")
                    os.rename(below, waiting[-1], src_dir_fd=number, dst_dir_fd=top)
            os.rmdir(name, dir_fd=top)
    os.rmdir(path, dir_fd=folder)


def _emptied(folder: int) -> Iterator[str]:
    """The directories that a directory holds, open to us; all else in it is removed."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=folder)
            continue
        with _opened(name, folder):  # what may not be written cannot be moved either
            pass
        yield name


@contextmanager
def _opened(path: str, folder: int | None) -> Iterator[int]:
    thing = os.open(path, O_PATH | _DIRECTORY, dir_fd=folder)
    try:
        if os.fstat(thing).st_mode & _ALL_MINE != _ALL_MINE:
            os.chmod(f"/proc/self/fd/{thing}", _ALL_MINE)
        number = os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=thing)
    finally:
        os.close(thing)
    try:
        yield number
    finally:
        os.close(number)
