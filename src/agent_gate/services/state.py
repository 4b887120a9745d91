"""The state tools: a governed, versioned JSON document for agents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jsonpatch
import jsonpointer

from agent_gate.model.builtin import STATE_TOOLS
from agent_gate.model.codec import weight
from agent_gate.model.errors import ToolError
from agent_gate.model.limits import SHOWN_CHARS_MAX, STATE_BYTES_MAX
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy import pointers
from agent_gate.policy.pointers import with_pointer
from agent_gate.ports import Hand, NewState
from agent_gate.toolkit import make_hand

_IS_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
"""One spelling for each element: `01` would pass a rule about `1`."""


class StateService:
    name = "state"
    dependencies: Sequence[str] = ()

    def tools(self) -> Sequence[ToolDeclaration]:
        return STATE_TOOLS

    def hands(self) -> Sequence[Hand]:
        ways = {"state.get": _get, "state.set": _set, "state.delete": _delete, "state.patch": _patch}
        return [
            make_hand(
                tool,
                self.name,
                transition=ways[tool.name],
                is_brief=True,
                normalise=with_pointer if tool.name in pointers.TOOLS else None,
            )
            for tool in STATE_TOOLS
        ]

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` is pure: it runs inside the gate, on the project's state")

    async def health_check(self) -> bool:
        return True

    async def close(self) -> None: ...


def _get(inputs: dict[str, Json], state: Json) -> NewState:
    path = inputs.get("path", "")
    try:
        return NewState(state, data=jsonpointer.JsonPointer(path).resolve(state))
    except jsonpointer.JsonPointerException:
        raise ToolError(
            f"the state has nothing at `{path}`", code=2002, suggestion="read the whole state with an empty path"
        ) from None


def _set(inputs: dict[str, Json], state: Json) -> NewState:
    path = inputs["path"]
    place = jsonpointer.JsonPointer(path)
    if not place.parts:
        return NewState(inputs["value"], "state replaced")
    parent = state
    for part in place.parts[:-1]:
        parent = parent.setdefault(part, {}) if isinstance(parent, dict) else _step(parent, part, path)
    if isinstance(parent, dict):
        parent[place.parts[-1]] = inputs["value"]
    elif isinstance(parent, list) and place.parts[-1] == "-":
        parent.append(inputs["value"])
    elif isinstance(parent, list):
        parent[_index(parent, place.parts[-1], path)] = inputs["value"]
    else:
        raise ToolError(f"`{path}` leads through a value that has no parts", code=2002)
    return NewState(state, f"set {path}")


def _delete(inputs: dict[str, Json], state: Json) -> NewState:
    path = inputs["path"]
    place = jsonpointer.JsonPointer(path)
    if not place.parts:
        return NewState({}, "state emptied")
    try:
        parent, last = place.to_last(state)
        if isinstance(parent, list):
            del parent[_index(parent, str(last), path)]
        else:
            del parent[last]
    except (jsonpointer.JsonPointerException, KeyError, TypeError):
        raise ToolError(f"the state has nothing at `{path}`", code=2002) from None
    return NewState(state, f"deleted {path}")


def _patch(inputs: dict[str, Json], state: Json) -> NewState:
    bytes_left = STATE_BYTES_MAX
    try:
        for operation in inputs["patch"]:
            bytes_left -= _copied(operation, state, bytes_left)
            if bytes_left < 0:
                raise ToolError(f"the patch copies more than {STATE_BYTES_MAX} bytes", code=2005)
            state = jsonpatch.JsonPatch([operation]).apply(state, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, ValueError) as error:
        raise ToolError(f"the patch does not apply: {error}"[:SHOWN_CHARS_MAX], code=2002) from None
    return NewState(state, f"applied {len(inputs['patch'])} operations")


def _copied(operation: Mapping[str, Json], state: Json, enough: int) -> int:
    """How much an operation copies of what is there: a few copies of copies would fill any memory."""
    source = operation.get("from")
    if operation.get("op") != "copy" or not isinstance(source, str):
        return 0
    return weight(jsonpointer.resolve_pointer(state, source), enough)


def _step(parent: Json, part: str, path: str) -> Json:
    if isinstance(parent, list):
        return parent[_index(parent, part, path)]
    raise ToolError(f"`{path}` leads through a value that has no parts", code=2002)


def _index(items: list[Json], part: str, path: str) -> int:
    if not _IS_INDEX.fullmatch(part) or int(part) >= len(items):
        raise ToolError(f"the list at `{path}` has no element {part}", code=2002)
    return int(part)
