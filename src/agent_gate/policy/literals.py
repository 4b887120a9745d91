"""Finds the few patterns that can match a text, by the rarest run of plain characters in each pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

LITERAL_CHARS_MIN = 2
"""A single character occurs in most texts and so tells nothing."""

_BUCKET_MAX = 16
"""A larger bucket is split by a second literal of its patterns."""

_TAIL_CHARS_MAX = 8

Find: TypeAlias = Callable[[str], set[int]]
"""The numbers of the literals that occur in a text."""


class LiteralIndex:
    """Index of the patterns that could match a text, given the literals that each of them needs."""

    def __init__(self, literals: Mapping[int, Sequence[str]]) -> None:
        shared = Counter(literal for each in literals.values() for literal in set(each))
        self._numbers: dict[str, int] = {}
        buckets: dict[int, list[int]] = {}
        for rank, each in literals.items():
            buckets.setdefault(self._number(_rarest(each, shared)), []).append(rank)
        self._split: dict[int, dict[int, list[int]]] = {}
        for number, bucket in buckets.items():
            if len(bucket) > _BUCKET_MAX:
                buckets[number] = self._split_bucket(number, bucket, literals, shared)
        self._buckets = [buckets.get(number, []) for number in range(len(self._numbers))]
        self._find = finder(self._numbers)

    def candidates(self, text: str) -> list[int]:
        """Ranks in no order; every pattern that matches the text is among them."""
        ranks: list[int] = []
        found = self._find(text)
        for number in found:
            ranks += self._buckets[number]
            if number in self._split:
                second = self._split[number]
                for other in found:
                    if other in second:
                        ranks += second[other]
        return ranks

    def _number(self, literal: str) -> int:
        return self._numbers.setdefault(literal, len(self._numbers))

    def _split_bucket(
        self, number: int, bucket: list[int], literals: Mapping[int, Sequence[str]], shared: Mapping[str, int]
    ) -> list[int]:
        """Files the ranks under a second literal; the rest, which have only one, is returned."""
        second: dict[int, list[int]] = {}
        rest: list[int] = []
        for rank in bucket:
            others = [literal for literal in literals[rank] if self._numbers.get(literal) != number]
            if others:
                second.setdefault(self._number(_rarest(others, shared)), []).append(rank)
            else:
                rest.append(rank)
        self._split[number] = second
        return rest


def _rarest(literals: Sequence[str], shared: Mapping[str, int]) -> str:
    """The one that fewest patterns share; of those the longest."""
    if len(literals) == 1:
        return literals[0]
    return min(literals, key=lambda literal: (shared[literal], -len(literal), literal))


def finder(numbers: Mapping[str, int]) -> Find:
    """An Aho-Corasick automaton, or tables by length where pyahocorasick is not installed."""
    try:
        # Imported here because most policies are too small to need it, and every start would pay for it.
        import ahocorasick  # noqa: PLC0415
    except ImportError:
        return find_by_tail(numbers)
    automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS)
    for literal, number in numbers.items():
        automaton.add_word(literal, number)
    automaton.make_automaton()
    occurrences = automaton.iter
    number_of = itemgetter(1)
    return lambda text: set(map(number_of, occurrences(text)))


def find_by_tail(numbers: Mapping[str, int]) -> Find:
    """Looks up every short piece of a text among the ends of the literals; some ten times slower."""
    tables: dict[int, dict[str, list[tuple[str, int]]]] = {}
    for literal, number in numbers.items():
        tail = literal[-_TAIL_CHARS_MAX:]
        tables.setdefault(len(tail), {}).setdefault(tail, []).append((literal, number))

    def find(text: str) -> set[int]:
        found: set[int] = set()
        for length, table in tables.items():
            for end in range(length, len(text) + 1):
                for literal, number in table.get(text[end - length : end], ()):
                    if text.endswith(literal, 0, end):
                        found.add(number)
        return found

    return find
