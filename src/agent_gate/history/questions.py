"""Open questions whole, as many as fit into one answer."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.approval import Question
from agent_gate.ports.reading import Reader
from agent_gate.ports.surroundings import Clock


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    first: list[tuple[Question, tuple[str, ...]]]
    """The oldest, and who has approved each so far."""
    total: int


def open_questions(reader: Reader, clock: Clock, limit: int, bytes_max: int, agent: str | None = None) -> OpenQuestions:
    """All of them, or those about one agent's calls; at least one, however large."""
    first: list[tuple[Question, tuple[str, ...]]] = []
    with reader.one_moment():
        total = reader.count_open_questions(clock, agent)
        for one in reader.open_questions(clock, agent=agent, limit=limit):
            bytes_max -= one.size
            if first and bytes_max < 0:
                break
            first.append((one.question, one.approved_by))
    return OpenQuestions(first, total)
