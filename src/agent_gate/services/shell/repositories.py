"""The repository that git would work in: whether it is in order, and which words are really run there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.policy.guards.path_patterns import normal
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.pathspecs import NotCovered, excluded, inverted
from agent_gate.policy.guards.programs import Use
from agent_gate.policy.guards.programs.git_revisions import Tracked, is_pathspec
from agent_gate.policy.guards.programs.git_words import Line, Shape
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.paths import Target
from agent_gate.resolve.repository import (
    NoRepository,
    Repository,
    find_repository,
    refused_settings,
    tells_credentials,
)


class Looked(Protocol):
    """Everything that is known of a command by then."""

    argv: tuple[str, ...]
    cwd: str
    targets: dict[str, Target]
    resources: dict[str, Json]
    found: dict[str, Json]
    repository: Repository | None
    words_run: tuple[str, ...]
    left_out: LeftOut | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A command that finds out which paths git was kept from showing."""

    words: tuple[str, ...]
    """Run as git's own, they list such paths from the top, each ended by NUL."""
    below: tuple[str, ...] = ()
    """Paths that the agent named: only what lies there counts."""

    def count(self, listed: bytes) -> int:
        names = {os.fsdecode(name).strip("\n") for name in listed.split(b"\0")} - {""}
        return sum(self._counts(name) for name in names)

    def _counts(self, name: str) -> bool:
        return not self.below or any(name == path or name.startswith(f"{path}/") for path in self.below)


class _Refusal(Exception):
    """The reason why git may not be let near it, for the guard to say."""


def look_at_repository(looked: Looked, use: Use, policy: Policy, around: Surroundings) -> None:
    """Says in `found` why git may not be let near it; otherwise says which words are run there."""
    line = use.git
    assert line is not None
    start = looked.targets[use.repository].path
    looked.found["repository"] = []
    try:
        repository = find_repository(start)
        if repository is not None:
            looked.found["repository"] = refused_settings(repository)
            if not line.outside:
                _judge(repository, line, policy, around)
                looked.repository = repository
        elif _is_open(policy) and not line.outside:
            raise _Refusal("there is no repository here, and without one git compares files, hidden ones too")
        _name_tracked(looked, line, repository.tops if repository else (start,))
        if looked.repository is not None and line.shape is not Shape.PLAIN:
            _set_words(looked, line, looked.repository, policy, around)
    except (NoRepository, _Refusal) as why:
        looked.found["repository_refused"] = visible(str(why))


def _judge(repository: Repository, line: Line, policy: Policy, around: Surroundings) -> None:
    section = policy.guards.fs_read
    if section is not None:
        rules = PathRules("fs.read", replace(section, allow_hidden=True, otherwise="deny"), policy, around)
        for folder in repository.directories:
            if rules.judge(folder, {"type": "file"})[1] is not None:
                raise _Refusal(f"the repository keeps its things in `{folder}`, which fs.read does not allow")
    if line.tells_addresses and tells_credentials(repository):
        raise _Refusal("an address in the repository's configuration holds a user name, and perhaps a password")
    if _is_open(policy) and repository.borrows():
        raise _Refusal("the repository takes objects from another one (objects/info/alternates)")


def _is_open(policy: Policy) -> bool:
    """True where no sandbox keeps a command from what it is not shown."""
    section = policy.guards.shell_run
    return section is not None and section.sandbox == "off"


def _name_tracked(looked: Looked, line: Line, tops: Sequence[str]) -> None:
    """Paths of whatever time as the names that they have in each work tree, whether or not they are there today."""
    tracked = line.tracked()
    if tracked:
        looked.resources["tracked"] = {item.word: _names(item, _here(looked, line), tops) for item in tracked}


def _names(item: Tracked, here: str, tops: Sequence[str]) -> list[str]:
    name = normal(_joined(tops[0] if item.from_top else here, item.path)) or "/"
    if not f"{name}/".startswith(f"{tops[0]}/"):
        return [name]
    return [f"{top}{name[len(tops[0]) :]}" for top in tops]


def _here(looked: Looked, line: Line) -> str:
    return _joined(looked.cwd, line.directory)


def _set_words(looked: Looked, line: Line, repository: Repository, policy: Policy, around: Surroundings) -> None:
    here = _here(looked, line)

    def is_path(word: str) -> bool:
        return is_pathspec(word) or os.path.lexists(_joined(here, word))

    pathspecs = _pathspecs(line, repository, policy, around)
    if pathspecs:
        listing = (looked.argv[0], *line.listing(is_path, inverted(pathspecs)))
        looked.left_out = LeftOut(listing, _prefixes(line.paths(is_path), here, repository.top))
    words = (looked.argv[0], *line.run(is_path, pathspecs))
    if words != looked.argv:
        looked.words_run = words
        looked.resources["words_run"] = list(words)


def _prefixes(paths: Sequence[str], here: str, top: str) -> tuple[str, ...]:
    """Paths from the top; none where one of them is a pattern, or the top itself."""
    names = [normal(_joined(here, path)) for path in paths]
    if any(map(is_pathspec, paths)) or top in names:
        return ()
    return tuple(name.removeprefix(f"{top}/") for name in names)


def _pathspecs(line: Line, repository: Repository, policy: Policy, around: Surroundings) -> list[str]:
    section = policy.guards.fs_read
    if not line.filters or section is None:
        return []
    try:
        specs = [spec for top in repository.tops for spec in excluded(section, policy, around, top)]
        return list(dict.fromkeys(specs))
    except NotCovered:
        raise _Refusal(
            f"fs.read does not allow all of `{repository.top}`, and git would show the rest of its history"
        ) from None


def _joined(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"
