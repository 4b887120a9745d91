"""Surroundings of a gate, looked up once when a policy comes into force: real paths instead of names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_gate.model.errors import ConfigError
from agent_gate.model.policy import Policy
from agent_gate.policy.guards.path_patterns import fixed_part, normal
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.rule_paths import relative_path


def real_directory(path: str | Path | None) -> str:
    """The real path of a working directory; by default the one of this process."""
    real = os.path.realpath(path or ".")
    if not os.path.isdir(real):
        raise ConfigError(f"working directory `{path}` is not a directory", suggestion="name one that exists")
    return real


def look_around(
    policy: Policy, working_dir: str, *, protected: tuple[str, ...] = (), secret: tuple[str, ...] = ()
) -> Surroundings:
    """`protected` are files of the gate that no tool may write, `secret` those that none may read either."""
    home = _home() if any("~/" in rule.pattern for rule in (*policy.rules, *policy.defaults)) else ""
    return Surroundings(working_dir, protected, secret, _links(policy, working_dir, home), home)


def _home() -> str:
    home = os.path.expanduser("~")
    return os.path.realpath(home) if home.startswith("/") else ""


def real_paths(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """As they really are and, where that is another name, as given: a link may be replaced by a file."""
    absolute, known = list(map(os.path.abspath, paths)), {"": ""}
    return tuple(dict.fromkeys((*(_real(path, known) for path in absolute), *absolute)))


def _real(path: str, known: dict[str, str]) -> str:
    """As `os.path.realpath` says, looking once at each directory that many paths have in common."""
    given = real = ""
    for name in filter(None, path.split("/")):
        given = f"{given}/{name}"
        if given not in known:
            real = f"{real}/{name}"
            known[given] = os.path.realpath(real).rstrip("/") if os.path.islink(real) else real
        real = known[given]
    return real or "/"


def _links(policy: Policy, working_dir: str, home: str) -> dict[str, str]:
    """Links in the fixed part of a pattern are followed now, and never again while the policy is in force."""
    links = {}
    fixed_parts = [fixed_part(source, working_dir, denies=denies) for source, denies in _patterns(policy)]
    for rule in (*policy.rules, *policy.defaults):
        if (relative := relative_path(rule.pattern, working_dir, home)) is not None:
            fixed_parts.append(relative.fixed)
    for fixed in fixed_parts:
        real = os.path.realpath(fixed or "/")
        if real != (normal(fixed) or "/"):
            links[fixed] = real
    return links


def _patterns(policy: Policy) -> Iterator[tuple[str, bool]]:
    for section in (policy.guards.fs_read, policy.guards.fs_write):
        if section is not None:
            yield from ((source, False) for source in section.allow_paths)
            yield from ((source, True) for source in section.deny_paths)
    yield from ((source, True) for source in policy.protected_paths)
