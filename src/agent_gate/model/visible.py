"""Text of agents as people should see it: nothing in it can hide, or move what stands beside it.

This is the one place where text is written out for terminals, pages, messages, reports and logs. What a reader could
miss becomes `⟨U+202E⟩`, a run of it `⟨U+0020×40⟩`; letters that run from right to left are isolated; a letter bears few
marks. Text that has been written out once is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple
from unicodedata import bidirectional, category

from agent_gate.model.invisible import is_invisible

INDENTATION_MAX, GAP_MAX = 40, 8
"""Columns that blanks of a file keep at the beginning and within a line; more would push the rest out of sight."""
_BREAKS_MAX = 3
_MARKS_MAX = 4
"""No living script puts more of them on a letter."""
_CHUNK_CHARS, _PIECE_CHARS_MAX, _NAMES_IN_A_PIECE_MAX = 4_096, 256, 16
_LOOKED_AT_FACTOR = 8
_TAB = "⇥   "
_SIGNS = ("+", "-", " ", "@", "\\")
"""Beginnings of the lines of a unified diff."""
ISOLATE, END = "\u2068", "\u2069"
"""Around letters that run from right to left, so that nothing beside them moves."""

_BLANK = r" \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_ODD = re.compile(
    rf"(?P<blanks>[{_BLANK}\n]{{2,}}|[{_BLANK.removeprefix(' ')}\n]|\A | \Z)"
    rf"|(?P<other>[^!-~\n{_BLANK}]+(?: [^!-~\n{_BLANK}]+)*)"
)
_LINES = re.compile(r"(?P<breaks>\n+)|[^\n]+")
_SEAM = re.compile("[!-~](?=[!-~])")
"""Between two such letters a text can be taken apart, and is drawn the same."""
_ISOLATED = re.compile(f"{ISOLATE}([^{ISOLATE}{END}]{{1,{_PIECE_CHARS_MAX}}}){END}")


class Kind(Enum):
    PLAIN = "plain"
    ODD = "odd"
    """Written out."""
    TURNED = "turned"
    """Runs from right to left, and is to be isolated from what stands beside it."""
    BREAK = "break"
    """The end of a line."""


class Piece(NamedTuple):
    kind: Kind
    text: str
    chars: int
    """Number of the agent's characters that it stands for."""

    @property
    def isolated(self) -> str:
        return f"{ISOLATE}{self.text}{END}" if self.kind is Kind.TURNED else self.text

    def cut(self, chars_max: int) -> Piece | None:
        """Its beginning, if it has one."""
        chars = chars_max - (2 if self.kind is Kind.TURNED else 0)
        if chars <= 0 or self.kind in (Kind.ODD, Kind.BREAK):
            return None
        return Piece(self.kind, self.text[:chars], chars)


@dataclass(frozen=True, slots=True)
class Drawn:
    """As much of a text as there was room for."""

    pieces: tuple[Piece, ...]
    left_out: int = 0
    """Number of its characters that had no room."""

    @property
    def text(self) -> str:
        return "".join(piece.isolated for piece in self.pieces)


def visible(text: object, chars_max: int | None = None) -> str:
    """On one line; one that is longer ends with how many characters there are more."""
    shown = str(text)
    whole = drawn(shown, chars_max)
    if chars_max is None or not whole.left_out:
        return whole.text
    room = chars_max - len(more(len(shown)))
    if room < len(more(len(shown))):
        return drawn(shown, chars_max - 1).text + "…"
    cut = drawn(shown, room)
    return cut.text + more(cut.left_out)


def visible_words(text: str, chars_max: int | None = None) -> str:
    """Draw prose on one line: between its words stands one blank, whatever stood there."""
    return visible(" ".join(text.split()), chars_max)


def visible_lines(text: str, chars_max: int | None = None) -> tuple[list[str], int]:
    """Show a text on lines of its own, such as a file: breaks and indentation stay. Count the characters left out."""
    shown = drawn(text, chars_max, in_a_file=True)
    return shown.text.split("\n"), shown.left_out


def visible_difference(diff: str) -> list[str]:
    """The lines of a unified diff: behind its sign each is a line of a file; one without a sign is drawn whole."""
    return [_after_sign(line, 1 if line.startswith(_SIGNS) else 0) for line in diff.split("\n")]


def _after_sign(line: str, place: int) -> str:
    return line[:place] + drawn(line[place:], in_a_file=True).text


def more(chars: int) -> str:
    return f"… {chars:,} more"


def drawn(text: str, chars_max: int | None = None, *, in_a_file: bool = False) -> Drawn:
    """Piece by piece; no more of it is looked at than there is room for, long runs of one character included."""
    near = text if chars_max is None else text[: _LOOKED_AT_FACTOR * chars_max + _CHUNK_CHARS]
    pieces = _file(near) if in_a_file else _line(near)
    if chars_max is None:
        return Drawn(tuple(pieces))
    fitting, seen, room = [], 0, chars_max
    for piece in pieces:
        fits = piece if len(piece.isolated) <= room else piece.cut(room)
        if fits:
            fitting.append(fits)
            seen += fits.chars
            room -= len(fits.isolated)
        if fits is not piece:
            break
    return Drawn(tuple(fitting), len(text) - seen)


def written_out(text: str) -> str:
    """`⟨U+202E⟩`, `⟨U+0020×40⟩`"""
    return "".join(piece.text for piece in _hidden(text))


def visible_typed(text: str) -> str:
    """Write out what a person could not see in their own text; its blanks, tabs and breaks stay what they are."""
    return "".join(one if one in "\n\t\r" or not is_invisible(one) else written_out(one) for one in text)


def visible_json(document: str) -> str:
    """Escape what a terminal would obey or not show: to a machine that is the same JSON."""
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(_escape(one) if one > "~" and is_invisible(one) else one for one in document)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _file(text: str) -> Iterator[Piece]:
    for found in _LINES.finditer(text):
        yield from _breaks(found[0]) if found["breaks"] else _line(found[0], keeps_blanks=True)


def _line(text: str, *, keeps_blanks: bool = False) -> Iterator[Piece]:
    place = 0
    while place < len(text):
        seam = _SEAM.search(text, place + _CHUNK_CHARS, place + 16 * _CHUNK_CHARS)
        chunk = text[place : seam.end() if seam else len(text)]
        is_plain = chunk.isascii() and chunk.isprintable() and "  " not in chunk and chunk[0] != " " != chunk[-1]
        yield from [Piece(Kind.PLAIN, chunk, len(chunk))] if is_plain else _pieces(chunk, keeps_blanks, place == 0)
        place += len(chunk)


def _pieces(text: str, keeps_blanks: bool, is_beginning: bool) -> Iterator[Piece]:
    place = 0
    for found in _ODD.finditer(text):
        start, end = found.span()
        if start > place:
            yield Piece(Kind.PLAIN, text[place:start], start - place)
        place = end
        if found["other"]:
            yield from _other(found[0], has_base=start > 0 and "!" <= text[start - 1] <= "~")
        elif keeps_blanks and end < len(text):
            yield from _blanks(found[0], INDENTATION_MAX if is_beginning and start == 0 else GAP_MAX)
        else:
            yield from _hidden(found[0])
    if place < len(text):
        yield Piece(Kind.PLAIN, text[place:], len(text) - place)


def _breaks(run: str) -> Iterator[Piece]:
    if len(run) <= _BREAKS_MAX:
        yield from (Piece(Kind.BREAK, "\n", 1) for _ in run)
        return
    yield Piece(Kind.BREAK, "\n", 0)
    yield from _hidden(run)
    yield Piece(Kind.BREAK, "\n", 0)


def _blanks(run: str, columns_max: int) -> Iterator[Piece]:
    """A few blanks and tabs stay blanks, as a file needs them."""
    columns = run.count(" ") + len(_TAB) * run.count("\t")
    if run.strip(" \t") or columns > columns_max:
        yield from _hidden(run)
        return
    for blank, same in groupby(run):
        times = len(list(same))
        yield Piece(Kind.ODD, _TAB * times, times) if blank == "\t" else Piece(Kind.PLAIN, blank * times, times)


def _hidden(run: str) -> Iterator[Piece]:
    runs = _equal(run)
    while some := list(islice(runs, _NAMES_IN_A_PIECE_MAX)):
        names = (f"U+{ord(same[0]):04X}{f'×{len(same)}' if len(same) > 1 else ''}" for same in some)
        yield Piece(Kind.ODD, f"⟨{' '.join(names)}⟩", sum(map(len, some)))


def _equal(text: str) -> Iterator[str]:
    """Runs of one character each; a long one is measured in few steps."""
    start = 0
    while start < len(text):
        character, end, step = text[start], start + 1, 1
        while text.startswith(character * step, end):
            end, step = end + step, 2 * step
        while step := step // 2:
            end += step * text.startswith(character * step, end)
        yield text[start:end]
        start = end


class _Way(Enum):
    """Kinds of characters, by how they lie in their line."""

    PLAIN = "plain"
    RIGHT_TO_LEFT = "letters"
    ARABIC_NUMBER = "number"
    MARK = "mark"
    HIDDEN = "hidden"


_WAYS = {"R": _Way.RIGHT_TO_LEFT, "AL": _Way.RIGHT_TO_LEFT, "AN": _Way.ARABIC_NUMBER}


@lru_cache(maxsize=4_096)
def _way(character: str) -> _Way:
    if is_invisible(character):
        return _Way.HIDDEN
    if category(character) in ("Mn", "Me"):
        return _Way.MARK
    return _WAYS.get(bidirectional(character), _Way.PLAIN)


def _other(run: str, *, has_base: bool) -> Iterator[Piece]:
    """Whatever is not ASCII; what was isolated before stays so."""
    place = 0
    for found in _ISOLATED.finditer(run) if ISOLATE in run else ():
        inside = list(_by_way(found[1], has_base=False))
        if [piece.kind for piece in inside] == [Kind.TURNED]:
            yield from _by_way(run[place : found.start()], has_base=has_base)
            yield Piece(Kind.TURNED, found[1], len(found[0]))
            place, has_base = found.end(), False
    yield from _by_way(run[place:], has_base=has_base)


def _by_way(run: str, *, has_base: bool) -> Iterator[Piece]:
    for way, same in groupby(_ways(run, has_base=has_base), key=itemgetter(0)):
        while text := "".join(part for _, part in islice(same, _PIECE_CHARS_MAX)):
            if way is _Way.HIDDEN:
                yield from _hidden(text)
            else:
                yield Piece(Kind.PLAIN if way is _Way.PLAIN else Kind.TURNED, text, len(text))


def _ways(run: str, *, has_base: bool) -> Iterator[tuple[_Way, str]]:
    """Equal characters with their way: marks go the way of their letter, a blank the way of the words around it."""
    way, marks = _Way.PLAIN, 0 if has_base else _MARKS_MAX
    end = 0
    for text in _equal(run):
        own, end = _way(text[0]), end + len(text)
        if own is _Way.MARK:
            room = max(0, _MARKS_MAX - marks)
            marks += len(text)
            yield from (pair for pair in ((way, text[:room]), (_Way.HIDDEN, text[room:])) if pair[1])
            continue
        if text == " ":
            between = way is _Way.RIGHT_TO_LEFT and end < len(run) and _way(run[end]) is way
            way, marks = way if between else _Way.PLAIN, _MARKS_MAX
        else:
            way, marks = own, _MARKS_MAX if own is _Way.HIDDEN else 0
        yield way, text
