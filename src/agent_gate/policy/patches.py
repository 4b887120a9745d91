"""JSON Patches (RFC 6902), applied within bounds, and refused in words that name the operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jsonpatch
import jsonpointer

from agent_gate.model.bounds import PATCH_WORK_MAX, STATE_BYTES_MAX
from agent_gate.model.codec import weight
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.documents import ABSENT, Place, child_of, index_of, place_of, value_at

_COPY_WORK = 20
"""For each value that is copied."""
_SHIFTED_AT_ONCE = 64
"""Elements of a list that are moved up or down at the price of one."""


def patched(document: Json, patch: Sequence[Mapping[str, Json]]) -> Json:
    """The new document, which shares with the old one all that the patch leaves alone; the old one stays as it is."""
    owned: dict[int, Json] = {}
    left, bytes_left = PATCH_WORK_MAX, STATE_BYTES_MAX
    for number, operation in enumerate(patch, 1):
        bytes_left -= _bytes_copied(document, operation, bytes_left)
        if bytes_left < 0:
            raise ToolError(f"the patch copies more than {STATE_BYTES_MAX} bytes", code=2005)
        left -= _work(document, operation, left)
        if left < 0:
            raise ToolError(
                f"operation {number} of the patch moves or copies too much", code=2002, suggestion="copy less at a time"
            )
        document = _owning(document, operation, owned)
        try:
            document = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, ValueError) as error:
            raise ToolError(
                f"operation {number} of the patch does not apply: {_reason(error, operation)}", code=2002
            ) from None
    return document


def places_named(patch: Sequence[Mapping[str, Json]]) -> list[Place]:
    """List what the operations of a patch name that they may change, in their order."""
    named: list[Place] = []
    for operation in patch:
        if operation.get("op") != "test":
            named += _places(operation, "path", *(["from"] if operation.get("op") == "move" else []))
    return named


def places_read(patch: Sequence[Mapping[str, Json]]) -> list[Place]:
    """List what the operations of a patch name whose value they tell: what they copy, move or compare."""
    named: list[Place] = []
    for operation in patch:
        if operation.get("op") == "test":
            named += _places(operation, "path")
        elif operation.get("op") in ("copy", "move"):
            named += _places(operation, "from")
    return named


def _places(operation: Mapping[str, Json], *fields: str) -> list[Place]:
    return [place_of(pointer) for field in fields if isinstance(pointer := operation.get(field), str)]


def _work(document: Json, operation: Mapping[str, Json], most: int) -> int:
    """Measure what an operation takes beyond what it says itself: copies, and elements that make room."""
    work = 0
    if operation.get("op") == "copy":
        for place in _places(operation, "from"):
            work += _COPY_WORK * _values_in(value_at(document, place), most // _COPY_WORK)
    for place in places_named([operation]):
        holder = value_at(document, place[:-1])
        work += len(holder) // _SHIFTED_AT_ONCE if isinstance(holder, list) else 0
    return work


def _bytes_copied(document: Json, operation: Mapping[str, Json], enough: int) -> int:
    """A few copies of copies would fill any memory once they are written down."""
    if operation.get("op") != "copy":
        return 0
    return sum(weight(value_at(document, place), enough) for place in _places(operation, "from"))


def _values_in(value: Json, most: int) -> int:
    """Count the values, until there are more than `most`."""
    waiting, count = [value], 0
    while waiting and count <= most:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return count + len(waiting)


def _owning(document: Json, operation: Mapping[str, Json], owned: dict[int, Json]) -> Json:
    """The document with containers of its own on the way to what the operation changes; each is copied once."""

    def own(value: Json) -> Json:
        if not isinstance(value, dict | list) or id(value) in owned:
            return value
        copied = value.copy()
        owned[id(copied)] = copied
        return copied

    for place in places_named([operation]):
        holder = document = own(document)
        for part in place[:-1]:
            child = child_of(holder, part)
            if child is ABSENT:
                break
            child = own(child)
            if isinstance(holder, dict):
                holder[part] = child
            elif (index := index_of(holder, part)) is not None:
                holder[index] = child
            holder = child
    return document


def _reason(error: Exception, operation: Mapping[str, Json]) -> str:
    op, path = operation.get("op"), operation.get("path")
    if isinstance(error, jsonpatch.JsonPatchTestFailed):
        return f"at `{path}` is not what it tests for"
    if isinstance(error, jsonpatch.InvalidJsonPatch | TypeError):
        return "it is no operation of RFC 6902; give op, path and what else the op needs"
    source = operation.get("from") if op in ("move", "copy") else None
    where = f"from `{source}` to `{path}`" if source is not None else f"`{path}`"
    return f"the state has no place to {op} {where}"
