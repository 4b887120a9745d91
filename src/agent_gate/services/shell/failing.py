"""Failure of a command: by its return code, and by what that means for the program."""

from __future__ import annotations

from agent_gate.model.call import CallRequest
from agent_gate.model.errors import Problem
from agent_gate.model.visible import visible
from agent_gate.policy.guards.programs.grammar import names

NONZERO, NEVER = "nonzero", "never"
_ONE_IS_AN_ANSWER = names(
    "grep egrep fgrep zgrep zegrep zfgrep bzgrep xzgrep zstdgrep rg pgrep",
    "diff diff3 sdiff colordiff zdiff xzdiff cmp zcmp xzcmp test [ expr",
)
"""Programs that say no with 1 (nothing found, not the same, not so) and only with 2 or more that they failed."""


def fails_on(request: CallRequest) -> str:
    """Choice of the caller; in a plan the steps after a command rest on it, elsewhere the caller sees the code."""
    said = request.args.get("fail_on")
    return str(said) if said else NONZERO if request.step_index is not None else NEVER


def failure(program: str, return_code: int, fail_on: str) -> Problem | None:
    """Say why the call has failed, where it has."""
    name = program.rpartition("/")[2]
    least = 2 if name in _ONE_IS_AN_ANSWER else 1
    if fail_on == NEVER or return_code < least:
        return None
    return Problem(
        2003,
        f"`{visible(name)}` ended with return code {return_code}",
        "see what it printed; with the argument `fail_on: never` any code is a success",
        "perform",
    )
