"""Finds what lies below directories that a program reads through where no sandbox hides anything from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from agent_gate.model.bounds import VIEW_ENTRIES_MAX
from agent_gate.model.errors import ToolError


def first_unshown(
    folders: Iterable[str],
    is_shown: Callable[[str, bool], bool],
    entries_max: int = VIEW_ENTRIES_MAX,
) -> str:
    """The first path that may not be shown, in the order of names; empty where all of it may.

    `is_shown` is asked with a real path, and whether the file has other names. Some programs follow links: one must
    lead to something that may be shown, and a directory that it leads to must lie below as well.
    """
    roots = sorted(set(folders))
    waiting = list(reversed(roots))
    left = entries_max
    while waiting:
        folder = waiting.pop()
        deeper: list[str] = []
        for entry in _entries(folder):
            left -= 1
            if left < 0:
                raise _too_many(folder, entries_max)
            if entry.is_symlink():
                if not _may_follow(entry.path, roots, is_shown):
                    return entry.path
            elif entry.is_dir(follow_symlinks=False):
                if not is_shown(entry.path, False):
                    return entry.path
                deeper.append(entry.path)
            elif not is_shown(entry.path, _has_other_names(entry)):
                return entry.path
        waiting += reversed(deeper)
    return ""


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Pass over what the gate cannot list: the program, which runs as the same user, cannot either."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _may_follow(link: str, roots: Iterable[str], is_shown: Callable[[str, bool], bool]) -> bool:
    real = os.path.realpath(link)
    if os.path.isdir(real) and not any(f"{real}/".startswith(f"{root.rstrip('/')}/") for root in roots):
        return False
    return is_shown(real, True)


def _has_other_names(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_nlink > 1
    except OSError:
        return False


def _too_many(folder: str, most: int) -> ToolError:
    return ToolError(
        f"more than {most} files up to `{folder}` would have to be looked at before the command can be started",
        code=2006,
        suggestion="name a smaller directory, or remove `sandbox: off`",
    )
