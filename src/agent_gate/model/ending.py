"""The end of performing, before it is settled: what was reached, or why not."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from agent_gate.model.change import FileChange
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Status
from agent_gate.model.service_tables import TableChange
from agent_gate.model.tool import Json

OUTCOME_UNKNOWN = 2007
"""A tool fails with this code where it may have acted and cannot know."""

WRITES_STAY = "what it wrote stays"
"""Begins the message of a command that failed after what it wrote was committed."""


class Output(Struct, frozen=True):
    """A tool's result with its canonical bytes."""

    data: Json
    encoded: bytes
    hash: str


class NextState(Struct, frozen=True):
    """The state that a pure tool made, and how it differs from the one before."""

    document: bytes
    value: Json
    """The document, decoded; the difference holds nothing of it, because callers may change what they are told."""
    hash: str
    diff: tuple[Mapping[str, Json], ...]


class Ending(Struct, frozen=True):
    status: Status
    problem: Problem | None = None
    output: Output | None = None
    message: str = ""
    next_state: NextState | None = None
    acted: bool = False
    """True where the act was begun: then rate, quota and budget are charged."""
    files: tuple[FileChange, ...] = ()
    """Files that a command changed, or would have."""
    rows: tuple[TableChange, ...] = ()
    """Changes of a service's tables that count if the call is settled, and not otherwise."""

    @classmethod
    def denied(cls, problem: Problem) -> Ending:
        return cls(Status.EXPIRED if problem.code == 1016 else Status.DENIED, problem)

    @classmethod
    def failed(cls, problem: Problem, *, acted: bool) -> Ending:
        """A refusal found while acting, such as a redirect that the policy denies, is a denial all the same."""
        if problem.code == OUTCOME_UNKNOWN and acted:
            return cls(Status.UNKNOWN, problem, acted=True)
        refused = problem.code < 2000 and problem.code != 1008
        return cls(Status.DENIED if refused else Status.ERROR, problem, acted=acted)
