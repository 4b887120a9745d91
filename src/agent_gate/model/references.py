"""Values of earlier steps in the arguments of later ones: `${steps.ID.data.PATH}`, `${steps.ID.data[0].PATH}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agent_gate.model.bounds import ARGS_BYTES_MAX, INDEX_DIGITS_MAX
from agent_gate.model.codec import CodecError, canonical, weight
from agent_gate.model.tool import Json

_BEGINNING = re.compile(r"\$\{steps\.")
_REFERENCE = re.compile(r"\$\{steps\.([A-Za-z_][A-Za-z0-9_-]*)\.data((?:\.[A-Za-z0-9_-]+|\[[0-9]+\])*)\}")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_MISSING = object()

Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """One of them, where it stands in the arguments."""

    place: Place
    text: str
    step_id: str
    """Empty where it begins like a reference and is none."""
    is_whole: bool
    """True where it is all of its text, and so may become anything."""


def references_in(value: Json, place: Place = ()) -> Iterator[Reference]:
    """Every one of them in the arguments of a step, also those that are not written as they must be."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from references_in(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from references_in(item, (*place, index))
    elif isinstance(value, str):
        for beginning in _BEGINNING.finditer(value):
            found = _REFERENCE.match(value, beginning.start())
            text = found.group() if found else value[beginning.start() :]
            yield Reference(place, text, found[1] if found else "", text == value)


class References:
    """Fills in what earlier steps reached, and notes what none of them did.

    Sizes are counted before anything is filled in: a short text may refer to a long value many times.
    """

    def __init__(self, data: Mapping[str, Json], bytes_max: int = ARGS_BYTES_MAX) -> None:
        self._data = data
        self._bytes_max = self._bytes_left = bytes_max
        self.missing: list[str] = []

    def filled(self, value: Json) -> Json:
        """A reference that is a whole text keeps its type; inside a text it stands as text.

        CodecError where all that is filled in is more than the arguments of a call may be.
        """
        if isinstance(value, dict):
            return {key: self.filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.filled(part) for part in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        return self._resolved(whole) if whole else _REFERENCE.sub(self._as_text, value)

    def _as_text(self, match: re.Match[str]) -> str:
        value = self._resolved(match)
        if isinstance(value, str):
            return value
        text = canonical(value).decode()
        self._take(len(text))
        return text

    def _resolved(self, match: re.Match[str]) -> Json:
        value = self._data.get(match[1], _MISSING)
        for part in _PART.findall(match[2]):
            value = _member(value, part)
        if value is _MISSING:
            self.missing.append(match.group())
            return match.group()
        self._take(weight(value, self._bytes_left))
        return value

    def _take(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise CodecError(f"larger than {self._bytes_max} bytes")


def _member(value: Json, part: str) -> Json:
    if isinstance(value, dict):
        return value.get(part, _MISSING)
    if isinstance(value, list) and part.isdigit() and len(part) <= INDEX_DIGITS_MAX and int(part) < len(value):
        return value[int(part)]
    return _MISSING
