"""The state tools: a governed, versioned JSON document for agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy import pointers
from agent_gate.policy.documents import ABSENT, Place, child_of, place_of, value_at
from agent_gate.policy.patches import patched
from agent_gate.policy.pointers import with_pointer
from agent_gate.ports.tools import NewState, RegisteredTool
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.state import STATE_GET, STATE_TOOLS


class StateService:
    name = "state"

    def tools(self) -> Sequence[ToolDeclaration]:
        return STATE_TOOLS

    def registered_tools(self) -> Sequence[RegisteredTool]:
        ways = {"state.get": _get, "state.set": _set, "state.delete": _delete, "state.patch": _patch}
        return [
            make_registered_tool(
                tool,
                self.name,
                transition=ways[tool.name],
                is_brief=True,
                only_looks=tool is STATE_GET,
                normalise=with_pointer if tool.name in pointers.TOOLS else None,
            )
            for tool in STATE_TOOLS
        ]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` is pure: it runs inside the gate, on the project's state")


def _get(inputs: dict[str, Json], state: Json) -> NewState:
    path = inputs.get("path", "")
    value = value_at(state, place_of(path))
    if value is ABSENT:
        raise ToolError(
            f"the state has nothing at `{path}`", code=2002, suggestion="read the whole state with an empty path"
        )
    return NewState(state, data=value)


def _set(inputs: dict[str, Json], state: Json) -> NewState:
    path, value = inputs["path"], inputs["value"]
    place = place_of(path)
    if not place:
        return NewState(value, "state replaced")
    holders = [state]
    for part in place[:-1]:
        holder = holders[-1]
        holders.append(holder.get(part, {}) if isinstance(holder, dict) else _element(holder, part, path))
    if isinstance(holders[-1], list) and place[-1] == "-":
        value, place = [*holders.pop(), value], place[:-1]
    return NewState(_with(holders, place, path, value), f"set {path}")


def _with(holders: Sequence[Json], place: Place, path: str, value: Json) -> Json:
    """A document with another value at a place, given all that lies on the way; it shares the rest with the old one."""
    for holder, part in zip(reversed(holders), reversed(place), strict=True):
        if isinstance(holder, dict):
            value = {**holder, part: value}
        else:
            _element(holder, part, path)
            value = [*holder[: int(part)], value, *holder[int(part) + 1 :]]
    return value


def _element(holder: Json, part: str, path: str) -> Json:
    if not isinstance(holder, list):
        raise ToolError(f"`{path}` leads through a value that has no parts", code=2002)
    element = child_of(holder, part)
    if element is ABSENT:
        raise ToolError(f"the list on the way to `{path}` has no element {part}", code=2002)
    return element


def _delete(inputs: dict[str, Json], state: Json) -> NewState:
    path = inputs["path"]
    place = place_of(path)
    if not place:
        return NewState({}, "state emptied")
    holder = value_at(state, place[:-1])
    if child_of(holder, place[-1]) is ABSENT:
        raise ToolError(f"the state has nothing at `{path}`", code=2002)
    if isinstance(holder, list):
        value: Json = [*holder[: int(place[-1])], *holder[int(place[-1]) + 1 :]]
    else:
        value = {key: member for key, member in holder.items() if key != place[-1]}
    holders = [value_at(state, place[:depth]) for depth in range(len(place) - 1)]
    return NewState(_with(holders, place[:-1], path, value), f"deleted {path}")


def _patch(inputs: dict[str, Json], state: Json) -> NewState:
    return NewState(patched(state, inputs["patch"]), f"applied {len(inputs['patch'])} operations")
