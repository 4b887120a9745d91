"""The environment of a command: scrubbed, and such that no setting of its surroundings makes it start another."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.policy import CommandGuard
from agent_gate.policy.guards.programs import Use

_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.untrackedCache": "false",
    "diff.ignoreSubmodules": "dirty",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "safe.directory": "*",
    "submodule.recurse": "false",
}
_GIT = {
    "GIT_ASKPASS": "/bin/false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_GIT_SETTINGS.values())},
}


def environment(given: Mapping[str, str], section: CommandGuard, use: Use) -> dict[str, str]:
    """`given` has been judged: its names are in `allow_env`."""
    env = {
        "HOME": "/tmp" if use.starts_programs else "/nonexistent",  # noqa: S108 -- the sandbox's own
        "LANG": "C.UTF-8",
        # `less` then starts nothing, and neither reads nor keeps files of its own.
        **({} if use.starts_programs else {"LESSSECURE": "1"}),
        "PATH": ":".join(section.trusted_dirs),
    }
    if use.repository:
        env |= _GIT
    return {**env, **given}
