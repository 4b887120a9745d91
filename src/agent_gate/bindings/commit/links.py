"""Where symbolic links will really lead once a set of changes is made: through links of the set and of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from agent_gate.bindings.commit.change import Change

_FOLLOWED_MAX = 40
"""As many as the kernel follows."""


class Links:
    def __init__(self, changes: Sequence[Change], host: Callable[[str], str | None] = lambda path: path) -> None:
        """`host` tells where that really is which stands at a path."""
        self._host = host
        self._after = {change.path: change.after for change in changes}

    def end_of(self, path: str) -> str:
        """The real path of what a link leads to, which need not exist; empty for what will be no link."""
        if not self._target(path):
            return ""
        waiting, reached, followed = path.split("/")[::-1], "", 0
        while waiting:
            name = waiting.pop()
            if name == "..":
                reached = reached.rpartition("/")[0]
            elif name not in ("", "."):
                target = self._target(f"{reached}/{name}") if followed < _FOLLOWED_MAX else ""
                if target:
                    followed += 1
                    waiting += target.split("/")[::-1]
                    reached = "" if target.startswith("/") else reached
                else:
                    reached = f"{reached}/{name}"
        return reached or "/"

    def _target(self, path: str) -> str:
        if path in self._after:
            node = self._after[path]
            return node.target if node is not None else ""
        with suppress(OSError):
            return os.readlink(self._host(path) or "")
        return ""
