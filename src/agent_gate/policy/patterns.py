"""Glob patterns, taken apart for an index and turned into matchers that agree with `fnmatch.fnmatchcase`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from operator import methodcaller
from typing import TypeAlias

Matcher: TypeAlias = Callable[[str], object]
"""True, or something that counts as true, for a text that the pattern matches as a whole."""

# As fnmatch reads them: `]` right after `[` or `[!` is an item of the class, and `[` without an end is itself.
# Possessive, because giving the `]` back would find a class where fnmatch sees none.
_WILDCARD = re.compile(r"[*?]|\[!?+\]?+[^\]]*+\]")


def is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern or "[" in pattern


def literals(pattern: str) -> list[str]:
    """The runs of plain characters between wildcards: each must occur in any text that the pattern matches."""
    return [run for run in _WILDCARD.split(pattern) if run]


def characters(runs: Iterable[str]) -> int:
    """A set of characters as bits; beyond ASCII different characters may share a bit."""
    bits = 0
    for character in set().union(*runs):
        bits |= 1 << (ord(character) & 127)
    return bits


def matcher(pattern: str) -> Matcher:
    """Plain text operations where they do: a regular expression costs a hundred times more to prepare."""
    if "[" not in pattern:
        if "?" not in pattern:
            return _stars_only(pattern)
        if "*" not in pattern:
            return _fixed_length(pattern)
    return re.compile(translate(pattern)).match


def _stars_only(pattern: str) -> Matcher:
    first, *inner, last = pattern.split("*")
    middle = [run for run in inner if run]
    if not middle and not last:
        return methodcaller("startswith", first)
    if not middle and not first:
        return methodcaller("endswith", last)
    if len(middle) == 1 and not first and not last:
        return methodcaller("__contains__", middle[0])
    return _in_sequence(first, middle, last)


def _in_sequence(first: str, middle: list[str], last: str) -> Matcher:
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


def _fixed_length(pattern: str) -> Matcher:
    length = len(pattern)
    runs = [(run.start(), run.group()) for run in re.finditer(r"[^?]+", pattern)]

    def match(text: str) -> bool:
        return len(text) == length and all(text.startswith(run, at) for at, run in runs)

    return match
