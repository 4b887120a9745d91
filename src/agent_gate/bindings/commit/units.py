"""The renames that a set of changes comes to: a new or removed directory is one, with all that lies below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_gate.bindings.commit.change import Change
from agent_gate.bindings.commit.node import Identity

ADD, SWAP, REMOVE, META = "add", "swap", "remove", "meta"
TEMPORARY = ".agent-gate-"
"""How the names begin under which changes wait beside their places, and what they replace waits to be removed."""


class Meta(Struct, frozen=True):
    """Permissions, and of a file the time of its last change."""

    mode: int
    mtime_ns: int | None = None


class Unit(Struct, frozen=True, omit_defaults=True):
    """One step of a commit, which either has been made or has not."""

    step: str
    path: str
    name: str = ""
    """Beside the path: what waits there before the step, and what it replaced after it."""
    staged: tuple[int, int] | None = None
    """Device and inode of what waits."""
    before: Identity | None = None
    """What stood at the path."""
    was: Meta | None = None
    becomes: Meta | None = None


class Group(Struct, frozen=True):
    """The changes that one unit makes: the topmost first."""

    step: str
    top: Change
    below: tuple[Change, ...] = ()

    @property
    def is_directory_kept(self) -> bool:
        """Whether it is about nothing but the mode of a directory."""
        return self.step == META and self.top.before is not None and self.top.before.kind == "directory"


def grouped(changes: Sequence[Change]) -> list[Group]:
    """In the order of their steps: a directory's own mode last, since it may forbid all that is to be done in it."""
    groups = list(_groups(changes))
    kept = [group for group in groups if group.is_directory_kept]
    return [*(group for group in groups if not group.is_directory_kept), *reversed(kept)]


def _groups(changes: Sequence[Change]) -> Iterator[Group]:
    """`changes` are sorted by path, so that what lies below a directory follows it, though not at once."""
    waiting = sorted(changes, key=lambda change: change.path.split("/"))
    at = 0
    while at < len(waiting):
        top, at = waiting[at], at + 1
        below: list[Change] = []
        if _takes_all_below(top):
            inside = f"{top.path}/"
            while at < len(waiting) and waiting[at].path.startswith(inside):
                below.append(waiting[at])
                at += 1
        yield Group(_step(top), top, tuple(below))


def _takes_all_below(change: Change) -> bool:
    """Where a directory comes into being or goes, or gives way to something else."""
    before, after = change.before, change.after
    was_directory = before is not None and before.kind == "directory"
    is_directory = after is not None and after.kind == "directory"
    return was_directory != is_directory


def _step(change: Change) -> str:
    if change.before is None:
        return ADD
    if change.after is None:
        return REMOVE
    return META if change.word == "mode" and change.before.attributes == change.after.attributes else SWAP
