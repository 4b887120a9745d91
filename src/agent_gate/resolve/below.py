"""Paths below directories, and those of them that are treated otherwise than what surrounds them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from agent_gate.model.bounds import VIEW_ENTRIES_MAX, VIEW_NEAR_MAX, VIEW_PLACES_MAX
from agent_gate.model.errors import ToolError

Level = TypeVar("Level")


class Seen(NamedTuple, Generic[Level]):
    path: str
    level: Level
    is_directory: bool


class Below(Generic[Level]):
    """Walks without following links; bounded, because a command must not wait long for its view."""

    def __init__(
        self,
        level_of: Callable[[str], Level],
        nothing: Level,
        can_differ: Callable[[str], bool] = lambda _: True,
        entries_max: int = VIEW_ENTRIES_MAX,
        places_max: int = VIEW_PLACES_MAX,
        near_max: int = VIEW_NEAR_MAX,
    ) -> None:
        """`level_of` a path is what it is to be; where that is `nothing`, what lies below is not looked at.

        Nor is it where it cannot differ from the directory itself. Pipes, sockets and devices are `nothing`: whoever
        is at the other end is reached through them, also where all is read-only.
        """
        self._level_of, self._nothing, self._can_differ = level_of, nothing, can_differ
        self._entries_left, self._places_max = entries_max, places_max
        self._near_left = near_max

    def look(self, starts: Iterable[str], *, near: bool = False) -> list[Seen[Level]]:
        """Each start, and each thing below whose level is not that of the directory it lies in; outer things first.

        `near` looks at what the starts hold and at no more than a little of what lies deeper: where it stops, a
        directory is nothing. For what does not descend, so that it need not wait for a walk.
        """
        found: list[Seen[Level]] = []
        visited: set[str] = set()
        for start in sorted(set(starts)):
            if any(start.startswith(f"{other.rstrip('/')}/") for other in visited):
                continue
            visited.add(start)
            level = self._level_of(start)
            is_directory = os.path.isdir(start)
            if level != self._nothing:
                found.append(Seen(start, level, is_directory))
            if is_directory:
                self._descend(start, level, found, near=near)
        return found

    def _descend(self, start: str, level: Level, found: list[Seen[Level]], *, near: bool) -> None:
        # Where the start itself may not be used, things below it may be: they are then shown one by one.
        waiting = deque([(start, level)])
        while waiting:
            folder, around = waiting.popleft()
            if not self._can_differ(folder):
                continue
            if near and folder != start and self._near_left <= 0:
                if around != self._nothing:
                    self._add(Seen(folder, self._nothing, True), start, found)
                continue
            for path, is_directory, is_special in self._entries(folder):
                level = self._nothing if is_special else self._level_of(path)
                if level != around:
                    self._add(Seen(path, level, is_directory), start, found)
                if is_directory and (level != self._nothing or around == self._nothing):
                    waiting.append((path, level))

    def _add(self, seen: Seen[Level], start: str, found: list[Seen[Level]]) -> None:
        found.append(seen)
        if len(found) > self._places_max:
            raise _too_many(start, self._places_max, "are treated otherwise than what surrounds them")

    def _entries(self, folder: str) -> list[tuple[str, bool, bool]]:
        """Paths, each with whether it is a directory, and whether it is neither that nor a file."""
        try:
            with os.scandir(folder) as entries:
                found = [
                    (entry.path, is_directory, not is_directory and not entry.is_file(follow_symlinks=False))
                    for entry in entries
                    if not entry.is_symlink()
                    for is_directory in (entry.is_dir(follow_symlinks=False),)
                ]
        except OSError:
            return []
        self._entries_left -= len(found)
        self._near_left -= len(found)
        if self._entries_left < 0:
            raise _too_many(folder, VIEW_ENTRIES_MAX, "would have to be looked at")
        return found


def _too_many(folder: str, most: int, why: str) -> ToolError:
    return ToolError(
        f"more than {most} files below `{folder}` {why} before the command can be started",
        code=2006,
        suggestion="name a smaller directory, or narrow allow_paths and deny_paths of fs.read",
    )
