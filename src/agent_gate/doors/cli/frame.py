"""A frame on a terminal that text of agents cannot leave, however narrow the terminal is.

Text that was drawn goes in line by line; a line that is too long for the terminal is broken here, so that the terminal
never does it. `│` begins a line, `┊` goes on with one; `╭─`, `├─` and `╰─` stand before words of the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from unicodedata import category, east_asian_width

from agent_gate.doors.cli.screen import difference_line
from agent_gate.model.visible import END, ISOLATE

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
    """How many places a terminal gives it at most: they disagree on signs, and on letters of ambiguous width."""
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
