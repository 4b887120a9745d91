"""Places for the layers of commands: the first that really takes them, outside of all that a command may write."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence

from agent_gate.model.errors import ToolError
from agent_gate.sandbox.command import Access, Command, Place, View
from agent_gate.sandbox.layering import UPPER, in_layers

PREFIX = "agent-gate-"
TRIAL = ("sh", "-c", 'cd "$1" && echo new > made && rm old && rm -r kept && mkdir kept && echo new > kept/made', "sh")
"""Write, remove, and put a directory in the place of one that is there."""

Trial = Callable[[tuple[str, ...], View, Callable[[Command], Command]], Awaitable[str]]
"""Runs a harmless command in a view, made ready by the last; what went wrong."""


def candidates() -> Iterator[str]:
    """Memory before disks, and what is one user's before what all share."""
    for path in (os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/dev/shm", "/var/tmp"):  # noqa: S108 -- made 0700 below
        if path and os.path.isabs(path) and os.access(path, os.W_OK | os.X_OK):
            yield os.path.realpath(path)


class ScratchPlaces:
    """Tries each place once."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._tried: dict[str, str] = {}

    async def pick(self, writable: Sequence[str]) -> str:
        """A place outside of `writable`; ToolError 2006 with what went wrong at each where none is to be had."""
        failed = []
        for place in candidates():
            inside = next((root for root in writable if f"{place}/".startswith(f"{root.rstrip('/')}/")), None)
            if inside is not None:
                failed.append(f"{place} lies in what the command may write")
                continue
            if place not in self._tried:
                self._tried[place] = await try_layers(place, self._trial)
            if not self._tried[place]:
                return place
            failed.append(f"{place}: {self._tried[place]}")
        raise ToolError(
            f"no place for the layers of commands works ({'; '.join(failed) or 'none can be written'})",
            code=2006,
            suggestion="set XDG_RUNTIME_DIR to a directory that is not on overlayfs, as a container's own are,"
            " or write `writes: direct` under shell.run",
        )


async def try_layers(place: str, trial: Trial) -> str:
    """Tell what is wrong with layers at a place; empty where nothing is."""
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as real,
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=place) as scratch,
    ):
        os.mkdir(f"{real}/kept")
        for name in ("old", "kept/old"):
            os.mknod(f"{real}/{name}", 0o600)
        view = View((Place(real, Access.WRITE, True),))
        wrong = await trial((*TRIAL, real), view, lambda command: in_layers(command, scratch))
        return wrong or _not_as_expected(real, f"{scratch}/0/{UPPER}")


def _not_as_expected(real: str, upper: str) -> str:
    if sorted(os.listdir(real)) != ["kept", "old"] or os.listdir(f"{real}/kept") != ["old"]:
        return "wrote into the directory itself"
    try:
        removed = os.lstat(f"{upper}/old")
        made = os.listdir(f"{upper}/kept")
    except OSError as error:
        return f"does not tell what was written: {error.strerror}"
    if not stat.S_ISCHR(removed.st_mode) or removed.st_rdev != 0 or made != ["made"]:
        return "does not tell what was removed"
    return ""
