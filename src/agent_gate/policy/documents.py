"""Places in JSON documents: by JSON pointer, and those in which two documents differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json

Place: TypeAlias = tuple[str, ...]
"""The names and numbers that lead there, from the root."""


class _Absent:
    """Stands where a document has nothing."""


ABSENT: Final = _Absent()


def place_of(pointer: str) -> Place:
    """Of a JSON pointer that is known to be one."""
    parts = pointer.split("/")[1:]
    return tuple([part.replace("~1", "/").replace("~0", "~") for part in parts] if "~" in pointer else parts)


def pointer_to(place: Sequence[str]) -> str:
    return "".join([f"/{part.replace('~', '~0').replace('/', '~1')}" for part in place])


def index_of(items: Sequence[Json], part: str) -> int | None:
    """Find the element that a part of a pointer means, None where there is none; `01` and `-1` do not spell one."""
    if not part.isascii() or not part.isdecimal() or len(part) > 10 or part != str(int(part)):
        return None
    return int(part) if int(part) < len(items) else None


def child_of(value: Json, part: str) -> Json:
    """Return what lies there, or ABSENT."""
    if isinstance(value, dict):
        return value.get(part, ABSENT)
    if isinstance(value, list):
        index = index_of(value, part)
        return ABSENT if index is None else value[index]
    return ABSENT


def value_at(document: Json, place: Sequence[str]) -> Json:
    """Return what lies there, or ABSENT."""
    for part in place:
        document = child_of(document, part)
    return document


def changed_places(before: Json, after: Json, place: Place = ()) -> Iterator[Place]:
    """Every place at or below one where two values differ: of what is removed, added or replaced all that it holds.

    What both documents share is not looked into. True is not 1, and 1.0 is.
    """
    waiting = [iter([(place, before, after)])]
    while waiting:
        at, old, new = next(waiting[-1], _END)
        if at is None:
            waiting.pop()
        elif old is not new and not _is_same(old, new):
            if type(old) is not type(new) or not isinstance(old, dict | list):
                yield at
                waiting.append(_below(at, old, ABSENT))
                old = ABSENT
            waiting.append(_below(at, old, new))


_END: Final = (None, None, None)


def _below(place: Place, old: Json, new: Json) -> Iterator[tuple[Place, Json, Json]]:
    """Pair what lies directly in either of two values with what the other has there."""
    if isinstance(old, list) or isinstance(new, list):
        pairs = zip_longest(
            old if isinstance(old, list) else (), new if isinstance(new, list) else (), fillvalue=ABSENT
        )
        for number, (one, other) in enumerate(pairs):
            yield (*place, str(number)), one, other
        return
    olds, news = (value if isinstance(value, dict) else {} for value in (old, new))
    for name in (*olds, *(name for name in news if name not in olds)):
        yield (*place, name), olds.get(name, ABSENT), news.get(name, ABSENT)


def _is_same(old: Json, new: Json) -> bool:
    """Python holds True to be 1, at whatever depth; the canonical text tells them apart."""
    if not isinstance(old, dict | list):
        return bool(old == new) and isinstance(old, bool) is isinstance(new, bool)
    return bool(old == new) and canonical(old) == canonical(new)
