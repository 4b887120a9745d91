"""The gate's own files by device and inode: another name, a hard link or a mount, does not hide them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence

FRESH_S = 1.0
"""Age that the list may have for a file with one name; one with several names could have got them just now."""
FILES_MAX = 10_000


class OwnFiles:
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._by_identity: dict[tuple[int, int], str] = {}
        self._linked = False
        self._looked_at = float("-inf")

    def name_of(self, status: os.stat_result, name: str) -> str | None:
        """The own file that this is another name of; None for any other file, and for our name itself."""
        if status.st_nlink > 1 or time.monotonic() - self._looked_at > FRESH_S:
            self._look()
        own = self._by_identity.get((status.st_dev, status.st_ino))
        return None if own == name else own

    def any_linked(self) -> bool:
        """Tell whether one of them has a second name somewhere, as it is now."""
        self._look()
        return self._linked

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        found = {}
        linked = False
        for path in self._files():
            try:
                status = os.stat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found[status.st_dev, status.st_ino] = path
                linked = linked or status.st_nlink > 1
        self._by_identity, self._linked = found, linked

    def _files(self) -> Iterator[str]:
        yield from self._paths
        for path in self._paths:
            try:
                with os.scandir(path) as entries:
                    yield from (entry.path for entry, _ in zip(entries, range(FILES_MAX), strict=False))
            except OSError:
                continue
