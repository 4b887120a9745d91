"""The person who started the command: their name in the record, and their yes or no at a real terminal."""

from __future__ import annotations

import os
import pwd
import sys
import termios

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.model.errors import GateError

CHOICES = "[y/N]"


def person_name() -> str:
    """`local:<user>`, by user id: an environment variable could claim anything."""
    try:
        return f"local:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"local:{os.getuid()}"


def is_person_there() -> bool:
    """Tell if a question can be put: both ends are a terminal."""
    return screen.on_terminal(sys.stdin) and screen.on_terminal(sys.stderr)


def says_yes(question: str) -> bool:
    forget_typed()
    print(f"{question} {CHOICES} ", end="", file=sys.stderr, flush=True)
    try:
        return means_yes(input())
    except EOFError:
        return False


def forget_typed() -> None:
    """Drop what was typed before a question was shown: it is no answer to it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def means_yes(line: str | None) -> bool:
    return (line or "").strip().lower() in ("y", "yes")


def must_mean_it(what: str, *, yes: bool, command: str) -> None:
    """Return only if the person says so, now or with --yes."""
    if yes:
        return
    if not is_person_there():
        raise UsageMistake(f"{what} cannot be undone, and nobody can be asked here: add --yes", command)
    if not says_yes(f"{what} cannot be undone; do it?"):
        raise GateError("not confirmed: nothing was changed", code=1015, suggestion="answer y, or add --yes")
