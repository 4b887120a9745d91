"""Alias signatures: other names of what a call would do, so that a deny holds for every spelling of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError, encoded_text
from agent_gate.policy.signature_ha import aliases_of_service, named_in
from agent_gate.policy.state_aliases import (
    EVERY_STATE,
    aliases_of_delete,
    aliases_of_get,
    aliases_of_patch,
    aliases_of_set,
)


def aliases_of(tool: str, args: Mapping[str, Json], state: Json = None) -> tuple[str, ...]:
    """Those of a tool whose signature is made of its arguments, which would act on `state`; most have none."""
    by_state, listed = _BY_STATE.get(tool), _BY_TOOL.get(tool)
    if by_state is None and listed is None:
        return ()
    try:
        changed = by_state(args, state) if by_state else ()
        return tuple(dict.fromkeys([*changed, *listed(args)])) if listed else changed
    except ArgumentError as error:
        raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None


def _of_entity(args: Mapping[str, Json]) -> Iterator[str]:
    yield from _read(args.get("entity_id"))


def _of_entities(args: Mapping[str, Json]) -> Iterator[str]:
    yield from _read(args.get("entity_ids"))


def _of_statistics(args: Mapping[str, Json]) -> Iterator[str]:
    yield from _read(args.get("statistic_ids"))


def _read(ids: Json) -> Iterator[str]:
    for entity_id in ids if isinstance(ids, list) else [ids]:
        if isinstance(entity_id, str):
            yield f"ha_get_state({encoded_text('entity_id', entity_id)})"


def _of_service(args: Mapping[str, Json]) -> Iterator[str]:
    yield from aliases_of_service(named_in(args))


def _of_whole_state(_: Mapping[str, Json]) -> Iterator[str]:
    """Earlier states, and what changed in them, tell what is in the state."""
    yield from EVERY_STATE


def _of_versions(_: Mapping[str, Json]) -> Iterator[str]:
    """Which there were, by whom and when; no value."""
    yield "state.get()"


_BY_TOOL: Mapping[str, Callable[[Mapping[str, Json]], Iterator[str]]] = {
    "ha_call_service": _of_service,
    "ha_get_entity_state": _of_entity,
    "ha_get_history": _of_entities,
    "ha_get_statistics": _of_statistics,
    "state.at": _of_whole_state,
    "state.diff": _of_whole_state,
    "state.history": _of_versions,
}
_BY_STATE: Mapping[str, Callable[[Mapping[str, Json], Json], tuple[str, ...]]] = {
    "state.get": aliases_of_get,
    "state.set": aliases_of_set,
    "state.delete": aliases_of_delete,
    "state.patch": aliases_of_patch,
}
"""Of tools that change or show the state: which paths, rests on what is there."""
