"""The name that was probably meant by one that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

NAMES_COMPARED_MAX = 1_000
NAME_CHARS_MAX = 100
LIKENESS = 0.7
"""Likeness that two names must have, from 0 to 1: `fs.raed` is 0.86 of `fs.read`."""


def nearest(name: str, names: Iterable[str], likeness: float = LIKENESS) -> str:
    """Of many names the one most like it, whatever the case of its letters; empty where none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415  # only where somebody made a mistake

    by_word = {each.casefold(): each for each in islice(names, NAMES_COMPARED_MAX)}
    found = get_close_matches(name[:NAME_CHARS_MAX].casefold(), by_word, 1, likeness)
    return by_word[found[0]] if found else ""


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "", likeness: float = LIKENESS) -> str:
    near = nearest(name, names, likeness)
    return f"did you mean `{near}`?" if near else otherwise
