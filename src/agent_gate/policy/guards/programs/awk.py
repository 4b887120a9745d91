"""awk: programs that only compute and print; those that start programs or open files of their own are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_gate.policy.guards.programs.awk_program import check
from agent_gate.policy.guards.programs.grammar import Refused, Use

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_FLAGS_WITH_VALUE = ("-F", "-v")
_NETWORK = "/inet"
"""gawk takes a file of that name for a connection."""


def awk(words: Sequence[str], /) -> Use:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in _FLAGS_WITH_VALUE:
            at += 1
        elif not word.startswith(_FLAGS_WITH_VALUE):
            if word in ("--version", "-V") and len(words) == 1:
                return Use()
            raise Refused(f"`{word}` is not an option that it may be given")
    if at >= len(words):
        raise Refused("it has no program")
    check(words[at])
    operands = [word for word in words[at + 1 :] if word not in ("", "-")]
    for word in operands:
        if word.startswith(_NETWORK):
            raise Refused(f"`{word}` would be a connection")
    # A word that assigns is no file, unless awk has a word of its own of that name.
    assignments = tuple(word for word in operands if _ASSIGNMENT.match(word))
    return Use(tuple(word for word in operands if not _ASSIGNMENT.match(word)), assignments)
