"""What a command writes into its layers, watched while it runs: layers may lie in memory, where no quota holds."""

from __future__ import annotations

import os

from agent_gate.model.errors import ToolError

_SLACK_BYTES = 67_108_864
"""Others write to the same disk; so much less room there is no reason to look closer."""
_FILE_BYTES = 4096
"""What a file takes beside its content, in memory too: a million empty ones are not nothing."""


class Growth:
    def __init__(self, scratch: str, bytes_max: int) -> None:
        self._scratch, self._bytes_max = scratch, bytes_max
        self._free_bytes = _free(scratch)

    def check(self) -> None:
        """ToolError 2005 where the layers have outgrown their bound. May wait for a disk."""
        if self._free_bytes - _free(self._scratch) <= min(self._bytes_max, _SLACK_BYTES):
            return
        if _size(self._scratch, self._bytes_max) > self._bytes_max:
            raise ToolError(
                f"the command was ended: it wrote more than max_changed_bytes of shell.run ({self._bytes_max})",
                code=2005,
                suggestion="raise it there, or let it write less",
            )
        self._free_bytes = _free(self._scratch)


def _free(path: str) -> int:
    told = os.statvfs(path)
    return told.f_bfree * told.f_frsize + told.f_ffree * _FILE_BYTES


def _size(folder: str, most: int) -> int:
    """Of all files below, as far as the bound."""
    size = 0
    for place, folders, files in os.walk(folder):
        size += len(folders) * _FILE_BYTES
        for name in files:
            try:
                size += os.lstat(f"{place}/{name}").st_blocks * 512 + _FILE_BYTES
            except OSError:
                continue
        if size > most:
            break
    return size
