"""Watches what a command writes into its layers while it runs: layers may lie in memory, where no quota holds."""

from __future__ import annotations

import os
from collections.abc import Callable

from agent_gate.model.errors import ToolError

_SLACK_BYTES = 67_108_864
"""Others write to the same disk; so much less room there is no reason to look closer."""
OVER_BYTES = 8_388_608
"""So much more is no reason to end a command: what it wrote is measured exactly when it has ended."""
_FILE_BYTES = 4_096
"""Bytes that a file takes besides its content: a million empty ones are not nothing."""


def free_bytes(path: str) -> int:
    """Measure the room that a file system has left, with what a file takes for each that it still could hold."""
    told = os.statvfs(path)
    return told.f_bfree * told.f_frsize + told.f_ffree * _FILE_BYTES


def taken_bytes(folder: str, bytes_max: int) -> int:
    """Measure what all below a directory takes, as far as the bound."""
    size, waiting = 0, [folder]
    while waiting and size <= bytes_max:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512 + _FILE_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return size


class Growth:
    def __init__(
        self,
        scratch: str,
        bytes_max: int,
        *,
        over_bytes: int = OVER_BYTES,
        free: Callable[[str], int] = free_bytes,
        taken: Callable[[str, int], int] = taken_bytes,
    ) -> None:
        """`free` measures the room of a file system, `taken` what lies below a directory, as far as a bound."""
        self._scratch, self._bytes_max, self._over_bytes = scratch, bytes_max, over_bytes
        self._free, self._taken = free, taken
        self._free_bytes = free(scratch)

    def check(self) -> None:
        """ToolError 2005 where the layers have outgrown their bound. May wait for a disk."""
        free = self._free(self._scratch)
        if self._free_bytes - free <= min(self._bytes_max, _SLACK_BYTES):
            return
        most = self._bytes_max + self._over_bytes
        if self._taken(self._scratch, most) > most:
            raise ToolError(
                f"the command was ended: it wrote more than max_changed_bytes of shell.run ({self._bytes_max})",
                code=2005,
                suggestion="raise it there, or let it write less",
            )
        self._free_bytes = free
