"""The plain spellings of a command, so that a deny of one holds for all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from agent_gate.policy.guards.commands import signature_of
from agent_gate.policy.guards.programs.global_options import without_global_options

_VERSION = re.compile(r"(?P<program>.*?[a-zA-Z+])-?(?P<major>[0-9]+)(?:[.-][0-9.]+)?")
_GIT = "git-"


def aliases_of_command(argv: Sequence[str], executable: str = "") -> tuple[str, ...]:
    """The command by the bare name of its program, and of the file that this leads to, without global options."""
    names = _names(argv[0].rpartition("/")[2], executable.rpartition("/")[2])
    words = list(argv[1:])
    spellings = [words, *(shorter for name in names for shorter in without_global_options(name, words))]
    lines = [[name, *spelling] for name in names for spelling in spellings]
    lines += [["git", name.removeprefix(_GIT), *words] for name in names if name.startswith(_GIT)]
    return tuple(dict.fromkeys(signature_of(line) for line in lines if line != list(argv)))


@lru_cache(maxsize=256)
def _names(name: str, real: str) -> tuple[str, ...]:
    """`python3` that leads to `python3.11` is all of `python3`, `python3.11` and `python`."""
    names = {name: None}
    for known in (name, real):
        version = _VERSION.fullmatch(known)
        names |= dict.fromkeys((known, known.partition(".")[0]))
        if version:
            names |= dict.fromkeys((version["program"], version["program"] + version["major"]))
    return tuple(known for known in names if known)
