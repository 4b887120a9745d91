"""Reads a command given as text into words by POSIX quoting, and notes what only a shell could mean by it."""

from __future__ import annotations

import re
from typing import NamedTuple

_PIECE = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<plain>[^\s\\'"`$;&|<>~\x00-\x1f\x7f]+)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>[^\n])
    | (?P<dollar>\$(?![A-Za-z0-9_@*\#?$!{('"\\-]))
    | (?P<tilde>~)
    | (?P<shell>&&|\|\||<<<|<<|>>|\|&|\$[({]|\$[A-Za-z0-9_]+|\$|\\\n|[^'"\\])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE_IN_DOUBLE = re.compile(r'\\([$`"\\])')
_SHELL_IN_DOUBLE = re.compile(
    r"(?:\\[^\n]|[^\\$`]|\$(?![A-Za-z0-9_@*#?$!{(\\-]))*(\$[A-Za-z0-9_@*#?$!{(\\-]|`|\\\n)?", re.DOTALL
)


class TextError(ValueError):
    """A text that has no words: a quote is never closed."""


class Words(NamedTuple):
    words: list[str]
    shell: str = ""
    """The first thing in the text, outside of quotes, that a shell would act on."""


def words_of(text: str) -> Words:
    """The words of a text; nothing is expanded, and what a shell would act on stays where it stands."""
    text = text.strip(" \t\n")
    words: list[str] = []
    word: str | None = None
    shell = ""
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None:
            raise TextError(_unread(text[position]))
        position = found.end()
        kind, value = str(found.lastgroup), found[found.lastgroup or 0]
        if kind == "blank":
            if word is not None:
                words.append(word)
                word = None
            continue
        if kind == "double":
            acted_on = _SHELL_IN_DOUBLE.match(value)
            shell = shell or (acted_on[1] if acted_on and acted_on[1] else "")
            value = _ESCAPE_IN_DOUBLE.sub(r"\1", value)
        elif kind == "shell" or (kind == "tilde" and word is None):
            shell = shell or value
        word = value if word is None else word + value
    if word is not None:
        words.append(word)
    return Words(words, shell)


def _unread(character: str) -> str:
    if character == "\\":
        return "the command ends in a backslash"
    return f"a quote {character} in the command is never closed"
