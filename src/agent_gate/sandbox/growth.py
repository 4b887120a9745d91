"""Watches what a command writes into its layers while it runs: layers may lie in memory, where no quota holds."""

from __future__ import annotations

import os

from agent_gate.model.errors import ToolError

_SLACK_BYTES = 67_108_864
"""Others write to the same disk; so much less room there is no reason to look closer."""
OVER_BYTES = 8_388_608
"""So much more is no reason to end a command: what it wrote is measured exactly when it has ended."""
_FILE_BYTES = 4_096
"""Bytes that a file takes besides its content: a million empty ones are not nothing."""


class Growth:
    def __init__(self, scratch: str, bytes_max: int) -> None:
        self._scratch, self._bytes_max = scratch, bytes_max
        self._free_bytes = _free(scratch)

    def check(self) -> None:
        """ToolError 2005 where the layers have outgrown their bound. May wait for a disk."""
        free_bytes = _free(self._scratch)
        if self._free_bytes - free_bytes <= min(self._bytes_max, _SLACK_BYTES):
            return
        if _taken(self._scratch, self._bytes_max + OVER_BYTES) > self._bytes_max + OVER_BYTES:
            raise ToolError(
                f"the command was ended: it wrote more than max_changed_bytes of shell.run ({self._bytes_max})",
                code=2005,
                suggestion="raise it there, or let it write less",
            )
        self._free_bytes = free_bytes


def _free(path: str) -> int:
    told = os.statvfs(path)
    return told.f_bfree * told.f_frsize + told.f_ffree * _FILE_BYTES


def _taken(folder: str, bytes_max: int) -> int:
    """By all below, as far as the bound."""
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
