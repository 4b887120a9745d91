"""Headers of a request or response: names without regard to case, values that may repeat, never changed in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

Field: TypeAlias = tuple[str, str]
Fields: TypeAlias = dict[str, tuple[Field, ...]]
"""By name in lower case; each name keeps the spelling and the order of its values."""
GivenHeaders: TypeAlias = Mapping[str, str] | Iterable[Field]

is_token = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
is_value = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*").fullmatch

FRAMING = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to one hop, frame the message or say where it goes: no policy's to change."""


class Headers:
    """A value: equal to any other with the same values under the same names."""

    __slots__ = ("_fields",)

    def __init__(self, given: GivenHeaders = ()) -> None:
        pairs = given.items() if isinstance(given, Mapping) else given
        fields: Fields = {}
        for name, value in pairs:
            lower = name.lower()
            fields[lower] = (*fields.get(lower, ()), (name, value))
        self._fields = fields

    @classmethod
    def of_fields(cls, fields: Fields) -> Headers:
        """Takes the fields over; who made them keeps no hand on them."""
        headers = cls.__new__(cls)
        headers._fields = fields
        return headers

    def fields(self) -> Fields:
        """A copy to work on."""
        return self._fields.copy()

    def get(self, name: str) -> str | None:
        """The value; where the header repeats, all of its values joined by commas."""
        found = self._fields.get(name.lower())
        return None if found is None else found[0][1] if len(found) == 1 else ", ".join(value for _, value in found)

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for _, value in self._fields.get(name.lower(), ()))

    def size_bytes(self) -> int:
        return sum(len(name.encode()) + len(value.encode()) for name, value in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __iter__(self) -> Iterator[Field]:
        for repeated in self._fields.values():
            yield from repeated

    def __len__(self) -> int:
        return sum(map(len, self._fields.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(frozenset(self._values().items()))

    def __repr__(self) -> str:
        """Names only: a value may be a credential."""
        return f"Headers({', '.join(self._fields)})"

    def _values(self) -> dict[str, tuple[str, ...]]:
        return {lower: tuple(value for _, value in repeated) for lower, repeated in self._fields.items()}
