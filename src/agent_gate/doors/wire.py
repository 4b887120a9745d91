"""The one place where codes of problems become what a door says: here, exit codes of commands."""

from __future__ import annotations

from enum import IntEnum

from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.verdict import Decision


class Exit(IntEnum):
    SUCCESS = 0
    DENIED = 1
    USAGE = 2
    ERROR = 3
    WAITING = 4
    """An approval is pending, or expired."""
    UNREACHABLE = 5
    MISMATCH = 6
    """Verification or replay found a difference."""
    INTERRUPTED = 130
    """By the person at the keyboard, as shells have it."""


_BY_CODE = {
    1016: Exit.WAITING,
    4001: Exit.ERROR,
    5001: Exit.UNREACHABLE,
    5004: Exit.MISMATCH,
    6003: Exit.DENIED,
}
_BY_FAMILY = {1: Exit.DENIED, 4: Exit.MISMATCH}


def exit_of_problem(problem: Problem) -> Exit:
    return _BY_CODE.get(problem.code) or _BY_FAMILY.get(problem.code // 1000, Exit.ERROR)


def exit_of_outcome(outcome: Outcome) -> Exit:
    if outcome.status is Status.SUCCESS:
        return Exit.SUCCESS
    if outcome.status in (Status.PENDING_APPROVAL, Status.EXPIRED):
        return Exit.WAITING
    return exit_of_problem(outcome.error) if outcome.error else Exit.ERROR


def exit_of_decision(decision: Decision) -> Exit:
    return {Decision.ALLOW: Exit.SUCCESS, Decision.ASK: Exit.WAITING, Decision.DENY: Exit.DENIED}[decision]
