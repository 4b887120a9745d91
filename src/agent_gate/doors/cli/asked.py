"""A question as the rows of a terminal: who asks, what will be done, with which arguments, and why it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_gate.doors.cli.frame import Section, framed, noted
from agent_gate.doors.cli.screen import HAS_RUN, SIGNATURES_IN_A_LINE_MAX, difference_of, encoded, shortened
from agent_gate.model.approval import WRITTEN, Question
from agent_gate.model.limits import PENDING_ROWS_MAX, PENDING_VALUE_CHARS_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import drawn, more, visible, visible_lines


@dataclass(frozen=True, slots=True)
class Asked:
    agent_id: str
    tool: str
    project: str
    signatures: Sequence[str]
    given: Mapping[str, Json]
    reasons: Sequence[Mapping[str, str]]
    written: Sequence[Mapping[str, Any]] | None = None

    @classmethod
    def by(cls, question: Question) -> Asked:
        given = dict(sorted(question.given.items(), key=lambda item: item[0] not in question.sensitive))
        return cls(
            question.agent_id,
            question.tool,
            question.project,
            question.signatures,
            given,
            question.reasons,
            question.written,
        )

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Asked:
        """As the API tells of it."""
        has_run = told.get("has_run", False)
        given = {name: value for name, value in told["args"].items() if not (has_run and name == WRITTEN)}
        written = told["args"][WRITTEN] if has_run else None
        return cls(told["agent_id"], told["tool"], told["project"], told["signatures"], given, told["reasons"], written)

    @property
    def title(self) -> str:
        return f"{shortened(self.agent_id)} asks to call {shortened(self.tool)} in project {shortened(self.project)}"


def in_full(asked: Asked, columns: int | None) -> list[str]:
    """All of it: what cannot be seen cannot be agreed to."""
    return list(framed(asked.title, _sections(asked, None), columns))


def in_part(asked: Asked, columns: int | None, rest: str) -> list[str]:
    """So much that nobody has to look for the beginning; `rest` says where the rest is."""
    rows = list(framed(asked.title, _sections(asked, PENDING_VALUE_CHARS_MAX), columns))
    is_cut = any(drawn(text, PENDING_VALUE_CHARS_MAX, in_a_file=True).left_out for text in _texts(asked))
    if not is_cut and len(rows) <= PENDING_ROWS_MAX:
        return rows
    left_out = len(rows) - PENDING_ROWS_MAX
    told = f"… {f'{left_out:,} more lines' if left_out > 0 else 'more'}: {rest}"
    return [*rows[:PENDING_ROWS_MAX], *noted(told, columns)]


def in_short(asked: Asked, columns: int, rows_max: int) -> list[str]:
    """Who asks for what, once more, below the rest of a long question."""
    told = [("", [shortened(signature)]) for signature in asked.signatures[:SIGNATURES_IN_A_LINE_MAX]]
    rows = list(framed(asked.title, [Section("", told)], columns))
    if len(rows) < rows_max and len(told) == len(asked.signatures):
        return rows
    return [*rows[: rows_max - 1], *noted("… more above", columns)]


def _texts(asked: Asked) -> Iterator[str]:
    yield from asked.signatures
    yield from (value if isinstance(value, str) else encoded(value) for value in asked.given.values())


def _sections(asked: Asked, chars_max: int | None) -> Iterator[Section]:
    yield Section("", [("", [visible(signature, chars_max)]) for signature in asked.signatures])
    if asked.given:
        rows = [_argument(name, value, chars_max) for name, value in asked.given.items()]
        yield Section("arguments, as the agent gave them", rows)
    if asked.written is not None:
        yield Section(HAS_RUN, ())
    for change in asked.written or ():
        told = f"{change['change']} {visible(change['path'])}"
        yield Section(told, [("", difference_of(change))], is_difference=True)
    if asked.reasons:
        said = [f"{reason['layer']}: {reason.get('text') or reason.get('rule') or ''}" for reason in asked.reasons]
        yield Section("why a person is asked", [("", [visible(one)]) for one in said])


def _argument(name: str, value: Json, chars_max: int | None) -> tuple[str, list[str]]:
    """Text line by line; anything else as JSON, which is said, since a text may look the same."""
    if not isinstance(value, str):
        return f"{visible(name)} (JSON)", [visible(encoded(value), chars_max)]
    lines, left_out = visible_lines(value, chars_max)
    return visible(name), [*lines, *([more(left_out)] if left_out else [])]
