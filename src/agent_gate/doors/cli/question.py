"""A question on a terminal: who asks, what will be done, with which arguments, and why it is asked.

It stands in a frame that text of agents cannot leave, however narrow the terminal is. Text that was drawn goes in line
by line; a line that is too long for the terminal is broken here, so that the terminal never does it. `│` begins a line,
`┊` goes on with one; `╭─`, `├─` and `╰─` stand before words of the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any
from unicodedata import category, east_asian_width

from agent_gate.doors.cli.screen import (
    HAS_RUN,
    SIGNATURES_IN_A_LINE_MAX,
    difference_line,
    difference_of,
    encoded,
    shortened,
)
from agent_gate.model.approval import WRITTEN, Question
from agent_gate.model.bounds import PENDING_ROWS_MAX, PENDING_VALUE_CHARS_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import END, ISOLATE, drawn, more, visible, visible_lines

COLUMNS_MIN, ROWS_MIN = 24, 8
"""A smaller terminal shows no question."""
_NAME_COLUMNS_MAX = 20
_MARKS = ("Mn", "Me")


@dataclass(frozen=True, slots=True)
class Section:
    """Lines below words of the gate; beside some stands a name."""

    title: str
    rows: Sequence[tuple[str, Sequence[str]]]
    is_difference: bool = False


def framed(title: str, sections: Iterable[Section], columns: int | None) -> Iterator[str]:
    """Row by row; without a terminal no line is broken."""
    yield from _titled("╭─", title, columns)
    for section in sections:
        if section.title:
            yield from _titled("├─", section.title, columns)
        yield from _rows(section, columns)


def noted(text: str, columns: int | None) -> Iterator[str]:
    return _titled("├─", text, columns)


def ending(text: str, columns: int | None) -> Iterator[str]:
    return _titled("╰─", text, columns)


def wrapped(line: str, columns: int | None) -> Iterator[str]:
    """A drawn line in parts that surely fit; what is isolated stays isolated in each of them."""
    if columns is None or (line.isascii() and len(line) <= columns):
        yield line
        return
    part: list[str] = []
    room, is_isolated = columns, False
    for letter in _letters(line):
        if letter in (ISOLATE, END):
            is_isolated = letter == ISOLATE
        elif width(letter) > room:
            yield "".join(part) + (END if is_isolated else "")
            part, room = [ISOLATE] if is_isolated else [], columns
        part.append(letter)
        room -= width(letter)
    yield "".join(part)


def _letters(line: str) -> Iterator[str]:
    """Each with its marks, which would otherwise lie over the frame."""
    letter = ""
    for character in line:
        if letter and category(character) not in _MARKS:
            yield letter
            letter = ""
        letter += character
    if letter:
        yield letter


def cells(character: str) -> int:
    """Count the places that a terminal gives it at most: they disagree on signs, and on letters of ambiguous width."""
    if character.isascii():
        return 1
    if character in (ISOLATE, END):
        return 0
    if category(character) in _MARKS:
        return 1  # over its letter in most terminals, beside it in some
    return 2 if east_asian_width(character) in "WFA" or category(character)[0] == "S" else 1


def width(text: str) -> int:
    return sum(map(cells, text))


def _titled(sign: str, title: str, columns: int | None) -> Iterator[str]:
    for number, part in enumerate(wrapped(title, columns and columns - width(f"{sign} "))):
        yield f"┊  {part}" if number else f"{sign} {part}"


def _rows(section: Section, columns: int | None) -> Iterator[str]:
    widest = max((width(name) for name, _ in section.rows), default=0)
    beside = min(widest, _NAME_COLUMNS_MAX, columns // 4 if columns else _NAME_COLUMNS_MAX)
    room = columns and columns - width("│ ") - (beside + width(" │ ") if beside else 0)
    for name, lines in section.rows:
        parts = (numbered for line in lines for numbered in enumerate(wrapped(line, room)))
        labels = wrapped(name, columns and beside) if beside else ()
        for label, numbered in zip_longest(labels, parts):
            number, part = numbered or (0, "")
            shown = f"{'┊' if number else '│'} {difference_line(part) if section.is_difference else part}"
            yield f"│ {label or ''}{' ' * (beside - width(label or ''))} {shown}" if beside else shown


@dataclass(frozen=True, slots=True)
class Asked:
    """Question as it is drawn, whether it comes from the gate or from the API of a server."""

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
    """Draw who asks for what once more, below the rest of a long question."""
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
