"""The open questions at one moment: how many there are, the first of them, and a mark that changes when they do."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from agent_gate.model.approval import Question
from agent_gate.model.bounds import SHOWN_CHARS_MAX
from agent_gate.model.codec import sha256_hex
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.ports.reading import Reader
from agent_gate.ports.surroundings import Clock


@dataclass(frozen=True, slots=True)
class Mark:
    """Two that are equal stand for the same inbox."""

    count: int
    paused: bool
    digest: str


def mark(reader: Reader, clock: Clock) -> Mark:
    with reader.one_moment():
        # Ids sort by time, so the sum of what each says is the same for the same questions.
        rows, paused = reader.open_question_marks(clock), is_paused(reader)
    return Mark(len(rows), paused, sha256_hex(orjson.dumps([rows, paused])))


def is_paused(reader: Reader) -> bool:
    head = reader.head(GATE_PROJECT)
    return head is not None and head.status == "paused"


def first_questions(reader: Reader, clock: Clock, limit: int) -> list[tuple[Question, tuple[str, ...]]]:
    """The oldest open questions, and who has approved each so far.

    For a list: they come without their arguments and with the beginning of their first signature.
    """
    found = reader.open_questions(clock, limit=limit, brief_chars=SHOWN_CHARS_MAX + 1)
    return [(one.question, one.approved_by) for one in found]
