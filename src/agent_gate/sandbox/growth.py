"""What a command writes into its layers, watched while it runs: layers may lie in memory, where no quota holds."""

from __future__ import annotations

import os
from typing import NamedTuple

from agent_gate.model.errors import ToolError
from agent_gate.model.limits import LAYER_FILES_MAX

_SLACK_BYTES = 67_108_864
"""Others write to the same disk; so much less room there is no reason to look closer."""


class Growth:
    def __init__(self, scratch: str, bytes_max: int) -> None:
        self._scratch, self._bytes_max = scratch, bytes_max
        self._free = _free(scratch)

    def check(self) -> None:
        """ToolError 2005 where the layers have outgrown their bounds. May wait for a disk."""
        now = _free(self._scratch)
        if self._free.bytes - now.bytes <= min(self._bytes_max, _SLACK_BYTES) and (
            self._free.files - now.files <= LAYER_FILES_MAX // 2
        ):
            return
        taken = _taken(self._scratch, Room(self._bytes_max, LAYER_FILES_MAX))
        if taken.bytes > self._bytes_max:
            raise _too_much(f"more than max_changed_bytes of shell.run ({self._bytes_max})", "raise it there, or")
        if taken.files > LAYER_FILES_MAX:
            raise _too_much(f"more than {LAYER_FILES_MAX} files", "")
        self._free = now


class Room(NamedTuple):
    bytes: int
    files: int


def _too_much(what: str, remedy: str) -> ToolError:
    detail = f"the command was ended: it wrote {what}"
    return ToolError(detail, code=2005, suggestion=f"{remedy} let it write less".strip())


def _free(path: str) -> Room:
    told = os.statvfs(path)
    return Room(told.f_bfree * told.f_frsize, told.f_ffree)


def _taken(folder: str, most: Room) -> Room:
    """What all below takes, as far as the bounds."""
    size = count = 0
    waiting = [folder]
    while waiting and size <= most.bytes and count <= most.files:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return Room(size, count)
