"""Taking back one change of a JSON document while what came later stays, unless both touched the same place."""

from __future__ import annotations

from typing import Final

from agent_gate.model.differences import common_ends, same, step_into
from agent_gate.model.tool import Json

_ABSENT: Final = object()


class Drifted(Exception):
    """A place that would be touched no longer holds what the change left there."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def taken_back(before: Json, after: Json, now: Json) -> Json:
    """Take the change from `before` to `after` out of what is there now; parts of all three may stand in it."""
    return _taken_back("", before, after, now)


def _taken_back(path: str, before: Json, after: Json, now: Json) -> Json:
    if _alike(now, after):
        return before
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(now, dict):
        return _of_object(path, before, after, now)
    if isinstance(before, list) and isinstance(after, list) and isinstance(now, list):
        return _of_list(path, before, after, now)
    raise Drifted(path)


def _alike(one: Json, other: Json) -> bool:
    return one is other or same(one, other)


def _of_object(path: str, before: dict[str, Json], after: dict[str, Json], now: dict[str, Json]) -> Json:
    result = dict(now)
    for key in before | after:
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if _alike(old, new):
            continue
        value = _taken_back(step_into(path, key), old, new, now.get(key, _ABSENT))
        if value is _ABSENT:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def _of_list(path: str, before: list[Json], after: list[Json], now: list[Json]) -> Json:
    head, tail = common_ends(after, before)
    after_end, before_end = len(after) - tail, len(before) - tail
    both_end = min(after_end, before_end)
    if len(now) < after_end:
        raise Drifted(step_into(path, len(now)))
    between = [
        now[index]
        if same(before[index], after[index])
        else _taken_back(step_into(path, index), before[index], after[index], now[index])
        for index in range(head, both_end)
    ]
    for index in range(both_end, after_end):
        if not same(now[index], after[index]):
            raise Drifted(step_into(path, index))
    if before_end > after_end and not _alike(_at(now, after_end), _at(after, after_end)):
        # What was taken away stood before this element, or at the end: here it belongs again.
        raise Drifted(step_into(path, after_end))
    return [*now[:head], *between, *before[both_end:before_end], *now[after_end:]]


def _at(items: list[Json], index: int) -> Json:
    return items[index] if index < len(items) else _ABSENT
