"""Glob patterns, taken apart for an index and turned into matchers that agree with `fnmatch.fnmatchcase`."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from operator import methodcaller
from typing import TypeAlias

Matcher: TypeAlias = Callable[[str], object]
"""True, or something that counts as true, for a text that the pattern matches as a whole."""

# As fnmatch reads them: `]` right after `[` or `[!` is an item of the class, and `[` without an end is itself.
# Possessive, because giving the `]` back would find a class where fnmatch sees none.
_WILDCARD = re.compile(r"[*?]|\[!?+\]?+[^\]]*+\]")

_PARTS = re.compile(rf"{_WILDCARD.pattern}|.", re.DOTALL)

_SHORT_CHARS_MAX = 2_000
"""In longer texts a regular expression finds a piece sooner than Python code does."""


def is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern or "[" in pattern


def literals(pattern: str) -> list[str]:
    """The runs of plain characters between wildcards: each must occur in any text that the pattern matches."""
    return [run for run in _WILDCARD.split(pattern) if run]


def may_match(pattern: str, beginning: str) -> bool:
    """Tell whether the pattern could match a text that begins so; in doubt it could."""
    at = 0
    for part in _PARTS.findall(pattern):
        if part == "*" or at == len(beginning):
            return True
        if part != beginning[at] and not (part[0] in "?[" and matcher(part)(beginning[at])):
            return False
        at += 1
    return at == len(beginning)


def covers(pattern: str, beginning: str) -> bool:
    """Tell whether the pattern matches every text `beginning…)`, whatever stands between; in doubt it does not."""
    plain, star, end = pattern.partition("*")
    return star == "*" and end in ("", ")") and not is_glob(plain) and beginning.startswith(plain)


def characters(*texts: str) -> int:
    """The characters of all texts as bits; beyond ASCII different characters may share a bit."""
    bits = 0
    for character in set().union(*texts):
        bits |= 1 << (ord(character) & 127)
    return bits


def matcher(pattern: str) -> Matcher:
    """Plain text operations where they do: a regular expression costs a hundred times more to prepare."""
    if not is_glob(pattern):
        return methodcaller("__eq__", pattern)
    if "[" in pattern:
        return re.compile(translate(pattern)).match
    if "?" in pattern:
        return _pieces(pattern)
    first, *inner, last = pattern.split("*")
    middle = [run for run in inner if run]
    if not middle and not last:
        return methodcaller("startswith", first)
    if not middle and not first:
        return methodcaller("endswith", last)
    if len(middle) == 1 and not first and not last:
        return methodcaller("__contains__", middle[0])
    if len(middle) > 1 and all(len(run) == 1 for run in middle):
        return _characters_in_sequence(first, middle, last)
    return _runs(first, middle, last)


def _characters_in_sequence(first: str, middle: list[str], last: str) -> Matcher:
    """For many stars and single characters, where `translate` would try each star character by character."""
    steps = "".join(f"[^{escaped}]*+{escaped}" for escaped in map(re.escape, middle))
    rest = f"(?s:.*){re.escape(last)}\\Z" if last else ""
    return re.compile(re.escape(first) + steps + rest).match


def _runs(first: str, middle: list[str], last: str) -> Matcher:
    """For a pattern with no wildcard but `*`."""
    start = len(first)
    tail = len(last)

    def match(text: str) -> bool:
        end = len(text) - tail
        if end < start or not text.startswith(first) or not text.endswith(last):
            return False
        at = start
        for run in middle:
            found = text.find(run, at, end)
            if found < 0:
                return False
            at = found + len(run)
        return True

    return match


class _Piece:
    """A piece between two stars, with `?` in it: runs of plain characters at fixed distances."""

    __slots__ = ("length", "runs")

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self.runs = [(run.start(), run.group()) for run in re.finditer(r"[^?]+", piece)]

    def is_at(self, text: str, at: int) -> bool:
        for offset, run in self.runs:  # noqa: SIM110  # `all` over a generator takes twice as long
            if not text.startswith(run, at + offset):
                return False
        return True

    def end_after(self, text: str, at: int, end: int) -> int:
        """Find where the first occurrence between `at` and `end` ends; negative if there is none."""
        if not self.runs:
            return at + self.length if at + self.length <= end else -1
        offset, run = self.runs[0]
        while True:
            found = text.find(run, at + offset, end)
            at = found - offset
            if found < 0 or at + self.length > end:
                return -1
            if self.is_at(text, at):
                return at + self.length
            at += 1


def _pieces(pattern: str) -> Matcher:
    """For a pattern with no wildcards but `*` and `?`."""
    first, *others = (_Piece(piece) for piece in pattern.split("*"))
    *middle, last = others or [first]
    shortest = first.length + (last.length if others else 0)

    def match(text: str) -> bool:
        size = len(text)
        if size > _SHORT_CHARS_MAX:
            return re.compile(translate(pattern)).match(text) is not None
        end = size - last.length
        if size < shortest or (size > shortest and not others):
            return False
        if not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        at = first.length
        for piece in middle:
            at = piece.end_after(text, at, end)
            if at < 0:
                return False
        return True

    return match
