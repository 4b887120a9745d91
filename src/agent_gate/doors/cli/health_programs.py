"""Looks at the programs that a policy allows: whether each is there, and whether a script among them could start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent_gate.doors.cli.health import FAIL, OK, WARN, Row
from agent_gate.model.errors import ConfigError

if TYPE_CHECKING:
    from agent_gate.model.policy import CommandGuard
    from agent_gate.policy.guards.paths import PathRules

NAME = "programs"


def program_rows(named: Path | None) -> Iterator[Row]:
    """None where no policy is named and none is there, or where it allows no program."""
    path = named or Path("policy.yaml")
    if named is None and not path.exists():
        return
    from agent_gate.config import load_policy
    from agent_gate.policy.guards.paths import PathRules
    from agent_gate.resolve.surroundings import look_around, real_directory

    try:
        policy = load_policy(path)
    except ConfigError as error:
        yield from (Row("policy", FAIL, problem, "mend it: nothing runs under it") for problem in error.problems)
        return
    section, files = policy.guards.shell_run, policy.guards.fs_read
    if section is None or not section.allow_executables:
        return
    around = look_around(policy, real_directory(None))
    rows = list(_rows(section, PathRules("fs.read", files, policy, around) if files else None))
    yield from rows or [Row(NAME, OK, ", ".join(section.allow_executables))]


def _rows(section: CommandGuard, files: PathRules | None) -> Iterator[Row]:
    from agent_gate.policy.guards.needs import unseen
    from agent_gate.resolve.programs import NotFound, find_program
    from agent_gate.resolve.scripts import needs_of

    for name in section.allow_executables:
        try:
            found = find_program(name, section.trusted_dirs)
        except NotFound as why:
            folders = ", ".join(section.trusted_dirs)
            yield Row(NAME, WARN, f"{name} {why} ({folders})", "install it, or add its directory to trusted_dirs")
            continue
        try:
            needs = needs_of(found, section.trusted_dirs) if section.sandbox != "off" else []
        finally:
            found.descriptor.leave()
        missing = unseen([need._asdict() for need in needs], files)
        if missing is not None:
            yield Row(NAME, FAIL, f"{name} is a script that needs {missing.paths}", f"{missing.remedy}")
