"""Uses of a file by a command: by the file's name and, where that matters, by what else it is called."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from agent_gate.model.policy import PathGuard
from agent_gate.model.tool import Json
from agent_gate.policy.guards.paths import PathRules
from agent_gate.resolve.own_files import OwnFiles
from agent_gate.resolve.repository import Repository
from agent_gate.sandbox.command import Access

_FILE: Mapping[str, Json] = {"type": "file"}
_GIT_RULES = frozenset({".gitignore", ".gitattributes"})


class GitFiles:
    """Names that git alone is shown: a repository keeps all that it works with below a name that begins with a dot."""

    def __init__(self, repository: Repository, rules: PathRules) -> None:
        """`rules` allow hidden names, and deny what is denied by name."""
        self.rules = rules
        self._own = tuple(f"{path}/" for path in repository.own_paths)
        self._top = f"{repository.top}/"

    def has(self, path: str) -> bool:
        if f"{path}/".startswith(self._own):
            return True
        # git prints neither, and without them it takes ignored files for new ones.
        folder, _, name = path.rpartition("/")
        return name in _GIT_RULES and f"{folder}/".startswith(self._top) and "/." not in f"/{folder[len(self._top) :]}"


class Shown:
    def __init__(
        self,
        readable: PathRules | None,
        writable: PathRules | None = None,
        own: OwnFiles | None = None,
        git: GitFiles | None = None,
        named: frozenset[str] = frozenset(),
    ) -> None:
        """`own` are files of the gate's that have other names, if there are any; `named` has been judged already."""
        self._readable, self._writable, self._own, self._git = readable, writable, own, git
        self._named = named
        self.sections: list[PathGuard] = [rules.section for rules in (readable, writable) if rules is not None]

    @property
    def looks_at_files(self) -> bool:
        """Tell whether names alone do not decide."""
        return self._own is not None or (self._readable is not None and not self._readable.section.allow_hardlinks)

    def access(self, path: str) -> Access:
        if path in self._named:
            return Access.READ
        found = self._found(path) if self.looks_at_files else _FILE
        if self._writable is not None and self._writable.judge(path, found)[1] is None:
            return Access.WRITE
        rules = self._git.rules if self._git is not None and self._git.has(path) else self._readable
        return Access.READ if rules is not None and rules.judge(path, found)[1] is None else Access.NONE

    def _found(self, path: str) -> Mapping[str, Json]:
        try:
            status = os.lstat(path)
        except OSError:
            return _FILE
        if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
            return _FILE
        same = self._own.name_of(status, path) if self._own is not None else None
        return {**_FILE, "nlink": status.st_nlink, **({"same_as": same} if same else {})}
