"""Those who are told of questions and calls while they happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from agent_gate.model.approval import Question
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome


class Notifier(Protocol):
    """Brings a question to people, and news of its end."""

    async def ask(self, question: Question) -> None: ...

    async def resolved(self, question: Question, resolution: str, by: str) -> None: ...


Reached: TypeAlias = tuple[str, float]
"""A stage, and when a call came to it, on the monotonic clock."""


class Observer(Protocol):
    """Watches calls go by; it is quick, and never fails."""

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None:
        """With its outcome, None where the gate itself broke it off, and the stages that it was in."""
        ...

    def refused(self, problem: Problem) -> None:
        """Somebody was refused at a door."""
        ...

    def looked(self, door: str, place: str) -> None:
        """A person looked at something."""
        ...


class Unobserved:
    """Nobody watches."""

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None: ...

    def refused(self, problem: Problem) -> None: ...

    def looked(self, door: str, place: str) -> None: ...
