"""The renames that a set of changes comes to: a new or removed directory is one, with all that lies below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.node import Identity

ADD, SWAP, REMOVE, META = "add", "swap", "remove", "meta"
_OWNERS = 0o700
TEMPORARY = ".agent-gate-"
"""Prefixes of the names under which changes wait beside their places, and what they replace waits to be removed."""


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
    """The thing that stood at the path."""
    was: Meta | None = None
    becomes: Meta | None = None


class Group(Struct, frozen=True):
    """The changes that one unit makes: the topmost first."""

    step: str
    top: Change
    below: tuple[Change, ...] = ()

    @property
    def is_directory_kept(self) -> bool:
        """True where it is about nothing but the mode of a directory."""
        return self.step == META and self.top.after is not None and self.top.after.kind == "directory"


def in_order(changes: Sequence[Change]) -> list[Group]:
    """The steps so that none forbids another: directories are opened before all else, and closed after it."""
    groups = list(grouped(changes))
    opening = [group for group in groups if _opens(group)]
    closing = [group for group in groups if _closes(group)]
    between = [group for group in groups if not _opens(group) and not _closes(group)]
    return [*opening, *between, *reversed(closing)]


def _opens(group: Group) -> bool:
    before, after = group.top.before, group.top.after
    return group.is_directory_kept and bool(before and after and after.mode & ~before.mode & _OWNERS)


def _closes(group: Group) -> bool:
    return group.is_directory_kept and not _opens(group)


def grouped(changes: Sequence[Change]) -> Iterator[Group]:
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
    """Tell whether a directory comes into being or goes, or gives way to something else."""
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
