"""The gate's own files as they are now: what has become one since a policy came into force is noticed here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from agent_gate.model.bounds import OWN_FILES_FRESH_S
from agent_gate.policy.guards.surroundings import covering
from agent_gate.resolve.own_files import OwnFiles
from agent_gate.resolve.own_nearby import NAMES, kind_of_text
from agent_gate.resolve.ownership import Own


class OwnWatch(OwnFiles):
    def __init__(
        self, find: Callable[[], Own] = Own, working_dir: str = "", fresh_s: float = OWN_FILES_FRESH_S
    ) -> None:
        """`find` looks for them; what it says is used for so long."""
        super().__init__(())
        self._find, self._working_dir, self._fresh_s = find, working_dir, fresh_s
        self._own = Own()
        self._kinds: dict[str, str] = {}
        self._found_at = float("-inf")

    def now(self) -> Own:
        """As of a moment ago."""
        self._refresh()
        return self._own

    def look(self) -> Own:
        """As of now."""
        own = self._find()
        if own != self._own:
            self._kinds = {**dict.fromkeys(own.unwritten, "protected"), **dict.fromkeys(own.secret, "secret")}
            # What counts by name alone is left out: it may be thousands of files, and hard links are never written.
            self._paths, self._looked_at = (*own.protected, *own.secret), float("-inf")
            self._own = own
        self._found_at = time.monotonic()
        return own

    def kind_of(self, name: str) -> str:
        """`secret`, `protected`, or empty for what is not the gate's own, by its real name."""
        self._refresh()
        kinds = self._kinds
        return kinds.get(covering(kinds, name), "")

    def kind_with(self, path: str, content: Callable[[], bytes]) -> str:
        """`kind_of` a path that is to have this content: a policy that an agent left might be loaded one day."""
        folder, _, name = path.rpartition("/")
        if name in NAMES and folder == self._working_dir and kind_of_text(content(), name):
            return "protected"
        return self.kind_of(path)

    def name_of(self, status: os.stat_result, name: str) -> str | None:
        self._refresh()
        return super().name_of(status, name)

    def any_linked(self) -> bool:
        self._refresh()
        return super().any_linked()

    def _refresh(self) -> None:
        if time.monotonic() - self._found_at > self._fresh_s:
            self.look()
