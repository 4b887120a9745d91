"""Whatever goes wrong in a command, as one line and an exit code; never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_gate.doors.cli import screen
from agent_gate.doors.codes import Exit, Unreachable, exit_of_problem
from agent_gate.model.errors import ConfigError, GateError, Problem
from agent_gate.model.visible import visible

DEBUG = "AGENT_GATE_DEBUG"


class UsageMistake(Exception):
    """A command line that cannot be meant."""

    def __init__(self, detail: str, command: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.command = command


@dataclass(frozen=True, slots=True)
class Fault:
    """Message to the person or the program that started the command."""

    exit: Exit
    lines: Sequence[str]
    error: dict[str, Any]


def fault_of(error: BaseException) -> Fault:
    if isinstance(error, UsageMistake):
        return usage_fault(error.detail, error.command)
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        lines = [f"{error.problem.name}: {problem}" for problem in error.problems]
        return Fault(_exit(error.problem), lines, {**error.problem.to_json(), "problems": list(error.problems)})
    problem = error.problem if isinstance(error, GateError) else _problem_of(error)
    code = Exit.UNREACHABLE if isinstance(error, Unreachable) else _exit(problem)
    return Fault(code, [str(problem)], problem.to_json())


def usage_fault(detail: str, command: str) -> Fault:
    """A command line that is not one; it has no code, because no call came of it."""
    suggestion = f"see `{command} --help`"
    line = " ".join(f"usage: {detail}; {suggestion}".split())
    return Fault(Exit.USAGE, [line], {"name": "usage", "detail": detail, "suggestion": suggestion})


def tell(fault: Fault, *, as_json: bool) -> Exit:
    if as_json:
        screen.print_json({"error": fault.error})
    else:
        name = screen.paint("agent-gate:", "red", sys.stderr)
        for line in fault.lines:
            print(name, visible(line), file=sys.stderr)
    return fault.exit


def _exit(problem: Problem) -> Exit:
    return exit_of_problem(problem)


def _problem_of(error: BaseException) -> Problem:
    if isinstance(error, OSError):
        place = f"`{error.filename}`: " if error.filename else ""
        return Problem(5003, f"{place}{error.strerror or error}", "check the path and its permissions")
    if type(error).__module__ == "sqlite3":
        return Problem(5003, f"the ledger cannot be read: {error}", "is it a ledger of agent-gate?")
    text = " ".join(f"{type(error).__name__}: {error}".split())
    hint = f"this is a defect of agent-gate: set {DEBUG}=1 to see where it happened, and report it"
    return Problem(2003, f"unexpected {text}", hint)


def wants_traceback() -> bool:
    return os.environ.get(DEBUG, "") not in ("", "0")
