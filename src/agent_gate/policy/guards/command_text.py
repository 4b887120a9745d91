"""Reads a command given as text into words by POSIX quoting, and notes what only a shell could mean by it."""

from __future__ import annotations

import re
from typing import NamedTuple

_PIECE = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<plain>[^\\'"`$;&|<>~\x00-\x20\x7f]+)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>[^\n])
    | (?P<dollar>\$(?![A-Za-z0-9_@*\#?$!{('"\\-]))
    | (?P<variable>\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*\#?$!-]))
    | (?P<tilde>~)
    | (?P<operator>&&|\|\||<<<|<<|>>|\|&|\$[({'"]?|\\\n|[^'"\\])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE_IN_DOUBLE = re.compile(r'\\([$`"\\])')
_IN_DOUBLE = re.compile(
    r"(?:\\[^\n]|[^\\$`]|\$(?![A-Za-z0-9_@*#?$!{(\\-]))*(?:(\$[A-Za-z0-9_@*#?$!-])|(\$[{(\\]|`|\\\n))?", re.DOTALL
)


class TextError(ValueError):
    """A text that has no words: a quote is never closed."""


class Words(NamedTuple):
    words: list[str]
    operator: str = ""
    """The first thing in the text by which a shell would do more than start one program: a pipe, a substitution."""
    expanded: frozenset[str] = frozenset()
    """Words in which a shell would replace a variable or a home directory; here they stand as they are."""


def words_of(text: str) -> Words:
    """The words of a text; nothing is expanded, and what a shell would act on stays where it stands."""
    text = text.strip(" \t\n")
    reading = _Reading()
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None:
            raise TextError(_unread(text[position]))
        # Of `$'` and `$"` the quote still has to be read.
        position = found.end() - (found.group() in ("$'", '$"'))
        reading.take(str(found.lastgroup), found[found.lastgroup or 0])
    reading.end_word()
    return Words(reading.words, reading.operator, frozenset(reading.expanded))


class _Reading:
    def __init__(self) -> None:
        self.words: list[str] = []
        self.operator = ""
        self.expanded: list[str] = []
        # Pieces, joined at the end: to lengthen a text piece by piece copies it each time.
        self._pieces: list[str] = []
        self._expands = False

    def take(self, kind: str, value: str) -> None:
        if kind == "blank":
            self.end_word()
            return
        if kind == "double":
            value = self._double(value)
        elif kind == "operator":
            self.operator = self.operator or value
            value = "$" if value in ("$'", '$"') else value
        elif kind == "variable" or (kind == "tilde" and not self._pieces):
            self._expands = True
        self._pieces.append(value)

    def _double(self, value: str) -> str:
        found = _IN_DOUBLE.match(value)
        while found and found.group():
            self._expands = self._expands or found[1] is not None
            self.operator = self.operator or found[2] or ""
            found = _IN_DOUBLE.match(value, found.end())
        return _ESCAPE_IN_DOUBLE.sub(r"\1", value)

    def end_word(self) -> None:
        if not self._pieces:
            return
        word = "".join(self._pieces)
        self.words.append(word)
        if self._expands:
            self.expanded.append(word)
        self._pieces, self._expands = [], False


def _unread(character: str) -> str:
    if character == "\\":
        return "the command ends in a backslash"
    return f"a quote {character} in the command is never closed"
