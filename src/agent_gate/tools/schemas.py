"""Input schemas of the tools that come with the gate."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.tool import Json

TEXT: Mapping[str, Json] = {"type": "string"}


def object_schema(required: str = "", **properties: Mapping[str, Json]) -> dict[str, Json]:
    """The schema of an object; `required` are names, with a blank between them."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }
