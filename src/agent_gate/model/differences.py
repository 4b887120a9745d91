"""The difference of two JSON documents as an RFC 6902 patch, found in one walk and bounded in size."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from agent_gate.model.bounds import STATE_DIFF_OPS_MAX, STATE_DIFF_PATHS_CHARS_MAX
from agent_gate.model.tool import Json

Operation = dict[str, Json]


def difference(before: Json, after: Json) -> list[Operation]:
    """Find what turns one document into the other; one replacement of the whole where the parts would be too many.

    Lists are compared from both ends, and what lies between place by place: a shorter patch may exist, but to look
    for it takes time that grows with the square of the list.
    """
    if same(before, after):
        return []
    try:
        return _Walk().found(before, after)
    except _TooMany:
        return [{"op": "replace", "path": "", "value": after}]


def same(one: Json, other: Json) -> bool:
    """Tell whether two values are the same JSON, in which `true` is no number."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    if not isinstance(one, dict | list):
        return True
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def common_ends(one: Sequence[Json], other: Sequence[Json]) -> tuple[int, int]:
    """Count the elements that two lists have in common at their beginning, and of the rest at their end."""
    most = min(len(one), len(other))
    head = next((index for index in range(most) if not same(one[index], other[index])), most)
    most -= head
    tail = next((index for index in range(most) if not same(one[-1 - index], other[-1 - index])), most)
    return head, tail


def step_into(path: str, key: str | int) -> str:
    """The JSON pointer of a member."""
    if isinstance(key, int):
        return f"{path}/{key}"
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


class _TooMany(Exception):
    """More operations than a patch may have, or more text in their paths."""


class _Walk:
    """One comparison. A path is only written where something differs: it may be long, and its neighbours many."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._chars_left = STATE_DIFF_PATHS_CHARS_MAX

    def found(self, before: Json, after: Json) -> list[Operation]:
        self._compare("", before, after)
        return self._operations

    def _compare(self, path: str, before: Json, after: Json) -> None:
        if isinstance(before, dict) and isinstance(after, dict):
            self._compare_objects(path, before, after)
        elif isinstance(before, list) and isinstance(after, list):
            self._compare_lists(path, before, after)
        else:
            self._add("replace", path, value=after)

    def _compare_objects(self, path: str, before: dict[str, Json], after: dict[str, Json]) -> None:
        for key, old in before.items():
            if key not in after:
                self._add("remove", step_into(path, key))
            elif not same(old, after[key]):
                self._compare(step_into(path, key), old, after[key])
        for key, new in after.items():
            if key not in before:
                self._add("add", step_into(path, key), value=new)

    def _compare_lists(self, path: str, before: list[Json], after: list[Json]) -> None:
        head, tail = common_ends(before, after)
        old_end, new_end = len(before) - tail, len(after) - tail
        for index in range(head, min(old_end, new_end)):
            if not same(before[index], after[index]):
                self._compare(step_into(path, index), before[index], after[index])
        for index in range(old_end - 1, new_end - 1, -1):
            self._add("remove", step_into(path, index))
        for index in range(old_end, new_end):
            self._add("add", step_into(path, index), value=after[index])

    def _add(self, op: str, path: str, **value: Json) -> None:
        self._chars_left -= len(path)
        if len(self._operations) >= STATE_DIFF_OPS_MAX or self._chars_left < 0:
            raise _TooMany
        self._operations.append({"op": op, "path": path, **value})
