"""The one redactor: text and data without the secrets in them, for what tools say, for responses and for logs.

A secret is known by its value, by its shape, or by the name that stands before it. One pass of an automaton finds
values of ours and the beginnings of shapes, so the work is linear in the length of the text: a shape is tried only
where it begins, never inside a run that it could have begun, and gives nothing back. Values that an agent chose are
looked for one by one: it could choose them so that at every place of a text a thousand of them end.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote

import ahocorasick

from agent_gate.model.bounds import SCRUB_STRETCH_CHARS
from agent_gate.model.tool import Json

HIDDEN, HIDDEN_IN_LOGS = "***", "[secret]"
_ENCODED_CHARS_MIN = 4
"""A shorter value is two or three letters of base64, which stand everywhere."""


class Shape(NamedTuple):
    """A literal with which every credential of a kind begins, and the whole of one.

    Where the pattern has a group `secret`, only that is hidden.
    """

    beginnings: tuple[str, ...]
    whole: re.Pattern[str]


class Redactor:
    """Replaces secrets by a mark; those that touch or overlap go together."""

    def __init__(
        self,
        values: Iterable[str] = (),
        shapes: Iterable[Shape] = (),
        *,
        names: Iterable[str] = (),
        mark: str = HIDDEN,
        chars_min: int = 1,
        encoded: bool = True,
        indexed: bool = True,
    ) -> None:
        """Values shorter than `chars_min` hide nothing; `names` are, in lower case, those of values that always go.

        Values are looked for as text, JSON and Python write them, and where `encoded` also as URLs and base64 do; all
        in one pass where they are `indexed`, which pays where they are trusted and used again.
        """
        self._shapes, self._names = tuple(shapes), frozenset(names)
        self._mark, self._chars_min, self._encoded, self._indexed = mark, chars_min, encoded, indexed
        self._words: frozenset[str] = frozenset()
        self._index = _Index((), self._shapes)
        self.hide(*values)

    def hide(self, *values: str) -> None:
        """These too from now on."""
        found = (value for value in values if value and len(value) >= self._chars_min)
        words = self._words.union(*(spellings(value, encoded=self._encoded) for value in found))
        if words != self._words:
            self._words = words
            if self._indexed:
                self._index = _Index(words, self._shapes)

    def text(self, text: str) -> str:
        parts: list[str] = []
        reached = 0
        for start, end in _merged(self._spans(text)):
            parts += text[reached:start], self._mark
            reached = end
        return "".join((*parts, text[reached:])) if parts else text

    def data(self, data: Json) -> Json:
        """JSON without them: in texts, in keys, and where a number is one."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {
                self.data(key): self._mark if self._is_named(key) else self.data(part) for key, part in data.items()
            }
        if isinstance(data, list | tuple):
            return [self.data(part) for part in data]
        if isinstance(data, int | float) and not isinstance(data, bool) and str(data) in self._words:
            return self._mark
        return data

    def _spans(self, text: str) -> Iterable[tuple[int, int]]:
        found = self._index.spans(text)
        return found if self._indexed else chain(found, *(_occurrences(word, text) for word in self._words))

    def _is_named(self, key: Json) -> bool:
        return bool(self._names) and str(key).lower() in self._names


class _Index:
    """Places in a text where words stand, and where something has one of the shapes."""

    def __init__(self, words: Iterable[str], shapes: Iterable[Shape]) -> None:
        by_word: dict[str, tuple[bool, list[re.Pattern[str]]]] = {word: (True, []) for word in words}
        for shape in shapes:
            for beginning in shape.beginnings:
                by_word.setdefault(beginning, (False, []))[1].append(shape.whole)
        automaton = ahocorasick.Automaton()
        for word, (is_value, wholes) in by_word.items():
            automaton.add_word(word, (len(word), is_value, tuple(wholes)))
        automaton.make_automaton()
        self._automaton = automaton if by_word else None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        reached: dict[re.Pattern[str], int] = {}
        for last, (length, is_value, wholes) in self._words(text):
            start = last - length + 1
            if is_value:
                yield start, last + 1
            for whole in wholes:
                found = whole.match(text, start) if start >= reached.get(whole, 0) else None
                if found:
                    reached[whole] = found.end()
                    yield found.span("secret" if "secret" in whole.groupindex else 0)

    def _words(self, text: str) -> Iterator[tuple[int, tuple[int, bool, tuple[re.Pattern[str], ...]]]]:
        """Stretch by stretch: while the automaton looks for the next word, no other thread of Python's runs."""
        if self._automaton is None:
            return
        search = self._automaton.iter(text[:SCRUB_STRETCH_CHARS])
        yield from search
        for start in range(SCRUB_STRETCH_CHARS, len(text), SCRUB_STRETCH_CHARS):
            search.set(text[start : start + SCRUB_STRETCH_CHARS])
            yield from search


def spellings(value: str, *, encoded: bool = True) -> Iterator[str]:
    """A value in every way in which it may stand in a text, also where the text is bytes, one character each."""
    yield from _twice(value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    if encoded and len(value) >= _ENCODED_CHARS_MIN:
        raw = _bytes_of(value)
        base64 = (made(raw).decode().rstrip("=") for made in (b64encode, urlsafe_b64encode))
        yield from _twice(quote(raw, safe=""), *base64, raw.hex(), raw.hex().upper())


def _twice(*texts: str) -> Iterator[str]:
    for text in texts:
        yield text
        if not text.isascii():
            yield _bytes_of(text).decode("latin-1")


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _occurrences(word: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        yield start, end
        start = text.find(word, end)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order; those that touch or overlap go together."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
