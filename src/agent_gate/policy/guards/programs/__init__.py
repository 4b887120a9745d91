"""Knowledge of programs: which may be started at all, and what their command lines may say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from agent_gate.policy.guards.programs.archives import tar
from agent_gate.policy.guards.programs.awk import awk
from agent_gate.policy.guards.programs.git import git
from agent_gate.policy.guards.programs.grammar import Program, Reach, Refused, Use, names
from agent_gate.policy.guards.programs.json_query import jq
from agent_gate.policy.guards.programs.listing import LISTING
from agent_gate.policy.guards.programs.reading import READING
from agent_gate.policy.guards.programs.sed import sed
from agent_gate.policy.guards.programs.talking import TALKING, VersionOnly

__all__ = ["PROGRAMS", "Program", "Reach", "Refused", "Use", "is_wrapper", "program_named", "why_refused"]

PROGRAMS: Mapping[str, Program] = {
    **READING,
    **LISTING,
    **TALKING,
    "awk": awk,
    "gawk": awk,
    "git": git,
    "jq": jq,
    "mawk": awk,
    "nawk": awk,
    "original-awk": awk,
    "sed": sed,
    "tar": tar,
}
_WRAPPERS = names(
    "env timeout nohup nice ionice chrt taskset xargs parallel sudo doas su runuser setpriv setsid stdbuf",
    "unbuffer chroot unshare nsenter strace ltrace gdb perf time watch busybox toybox coreutils script expect",
    "flock ssh scp rsync make ninja cmake docker podman kubectl systemd-run systemctl at batch crontab socat ncat",
    "nc netcat entr exec command eval prlimit numactl capsh bwrap firejail proot fakeroot faketime tini dumb-init",
    "ld.so pager man vi vim nvim nano emacs ed ex",
)
_VERSIONED = re.compile(r"(python|perl|ruby|lua|php|node)-?[0-9][0-9.]*")


@lru_cache(maxsize=256)
def program_named(name: str) -> Program | None:
    """Find the grammar of a program's command line; `python3.12` is read like `python`."""
    versioned = _VERSIONED.fullmatch(name)
    return PROGRAMS.get(versioned[1] if versioned else name)


def is_wrapper(name: str) -> bool:
    """Tell whether a program is there to start others."""
    return name in _WRAPPERS


def why_refused(name: str) -> str:
    """Say why a program is refused whatever it is to do, beyond telling its version; empty where some words pass."""
    program = program_named(name)
    if program is None:
        return "it is there to start other programs" if is_wrapper(name) else "there are no rules for its arguments"
    is_code = isinstance(program, VersionOnly)
    return "it runs code that its words name, so that it may only be asked for its version" if is_code else ""
