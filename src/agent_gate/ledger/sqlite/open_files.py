"""The files of SQLite's as a connection has them open: what is written to them must be what others read."""

from __future__ import annotations

import os
from pathlib import Path

from agent_gate.ledger.files import WAY_OUT, LedgerFiles
from agent_gate.model.errors import StorageError


class Gone(StorageError):
    """The open file has no name any more: whatever is written there, nobody will ever find it."""

    default_code = 5002


class OpenFiles:
    """The database and its write-ahead log as they were opened: what is written to them is what others read."""

    def __init__(self, files: LedgerFiles) -> None:
        """Call it under the writer lock, when a connection has both of them open."""
        self._places = [(path, place_of(path)) for path in (f"{files.db}", f"{files.db}-wal")]

    def check(self) -> None:
        """Raises Gone; two system calls, so that every group of works can afford them."""
        for path, place in self._places:
            found = place_of(path)
            if found != place:
                what = f"`{path}` is gone" if found is None else f"another file is in the place of `{path}`"
                raise Gone(f"{what}, so that nothing more can be recorded", suggestion=WAY_OUT)


def place_of(path: str | Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no such file, or nobody can tell."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
