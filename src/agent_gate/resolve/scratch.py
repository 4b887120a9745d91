"""The directory that holds the layers of one command: held by the process that needs it, cleared away by the next."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress

from agent_gate.model.errors import ToolError
from agent_gate.resolve.trees import remove_tree

PREFIX = "agent-gate-layers-"
_TRIES = 5
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """Call `remove` in the end; where a process is killed before, a lock that is gone with it says so."""

    def __init__(self, place: str) -> None:
        """May wait for a disk."""
        for _ in range(_TRIES):
            path = tempfile.mkdtemp(prefix=PREFIX, dir=place)
            lock = _locked(path)
            if lock is not None and os.path.isdir(path):
                self.path, self._lock = path, lock
                return
        raise ToolError(f"`{place}` has no room for the layers of a command", code=2006, suggestion="try again")

    def remove(self) -> None:
        """May wait for a disk."""
        if self._lock >= 0:
            with suppress(OSError):
                remove_tree(self.path)
            os.close(self._lock)
            self._lock = -1


def clear_left_behind(place: str) -> None:
    """Remove what processes of this user that are gone have left. May wait for a disk."""
    for path in _of_this_user(place):
        lock = _locked(path)
        if lock is not None:
            with suppress(OSError):
                remove_tree(path)
            os.close(lock)


def _of_this_user(place: str) -> Iterator[str]:
    with os.scandir(place) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    yield entry.path


def _locked(path: str) -> int | None:
    """A descriptor that holds it; None where another process does, or where it is gone."""
    try:
        number = os.open(path, _DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number
