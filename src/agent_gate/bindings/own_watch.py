"""The gate's own files as they are now, by name and by identity: a hard link or a mount does not hide them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from agent_gate.bindings.own_files import Own
from agent_gate.policy.guards.surroundings import covering

FRESH_S = 1.0
"""How old the list may be for a file that has one name; one with several names could have got them just now."""
FILES_MAX = 10_000


class OwnFiles:
    def __init__(self, look: Callable[[], Own] = Own) -> None:
        """`look` finds them; what it says is used for a while."""
        self._look_for = look
        self._own = Own()
        self._kinds: dict[str, str] = {}
        self._by_identity: dict[tuple[int, int], str] = {}
        self._looked_at = float("-inf")

    def now(self) -> Own:
        """As of a moment ago."""
        self._refresh()
        return self._own

    def look(self) -> Own:
        """As of now."""
        self._own = own = self._look_for()
        self._kinds = {**dict.fromkeys(own.unwritten, "protected"), **dict.fromkeys(own.secret, "secret")}
        self._identify()
        self._looked_at = time.monotonic()
        return own

    def kind_of(self, name: str) -> str:
        """`secret`, `protected`, or empty for what is not the gate's own, by its real name."""
        self._refresh()
        kinds = self._kinds
        return kinds.get(covering(kinds, name), "")

    def name_of(self, status: os.stat_result, name: str) -> str | None:
        """The own file that this is another name of; None for any other file, and for our name itself."""
        self._refresh()
        if status.st_nlink > 1:
            self._identify()
        own = self._by_identity.get((status.st_dev, status.st_ino))
        return None if own == name else own

    def _refresh(self) -> None:
        if time.monotonic() - self._looked_at > FRESH_S:
            self.look()

    def _identify(self) -> None:
        """What counts by name alone is left out: it may be thousands of files, and hard links are never written."""
        own = self._own
        self._by_identity = dict(_identities((*own.protected, *own.secret), folders=True))


def _identities(paths: Iterable[str], *, folders: bool) -> Iterator[tuple[tuple[int, int], str]]:
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield (status.st_dev, status.st_ino), path
        elif folders and stat.S_ISDIR(status.st_mode):
            yield from _identities(_entries(path), folders=False)


def _entries(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry, _ in zip(entries, range(FILES_MAX), strict=False)]
    except OSError:
        return []
