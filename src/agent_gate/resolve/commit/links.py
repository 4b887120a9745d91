"""Targets of symbolic links once a set of changes is made: through links of the set and of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.following import followed


class Links:
    def __init__(self, changes: Sequence[Change], host: Callable[[str], str | None] = lambda path: path) -> None:
        """`host` tells where that really is which stands at a path."""
        self._host = host
        self._after = {change.path: change.after for change in changes}

    def end_of(self, path: str) -> str:
        """The real path of what a link leads to, which need not exist; empty for what will be no link."""
        if not self._target(path):
            return ""
        return followed(path, self._target)

    def _target(self, path: str) -> str:
        if path in self._after:
            node = self._after[path]
            return node.target if node is not None else ""
        with suppress(OSError):
            return os.readlink(self._host(path) or "")
        return ""
