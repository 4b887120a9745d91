"""Other names of what a call to a home does, by its arguments alone: a deny of reading holds for every way to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_gate.model.tool import Aliases, Json
from agent_gate.policy.encoding import encoded_text
from agent_gate.tools.home_assistant.signatures import aliases_of_service, named_in


def of_reading(argument: str) -> Aliases:
    """For a tool that reads the entities which this argument names."""
    return lambda args, _: _read(args.get(argument))


def _read(ids: Json) -> Iterator[str]:
    for entity_id in ids if isinstance(ids, list) else [ids]:
        if isinstance(entity_id, str):
            yield f"ha_get_state({encoded_text('entity_id', entity_id)})"


def of_service(args: Mapping[str, Json], _: Json) -> tuple[str, ...]:
    return aliases_of_service(named_in(args))
