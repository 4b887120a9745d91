"""Every field that a file may have, read off its schema, each with a file that has little else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agent_gate.config.__main__ import FORMATS
from agent_gate.config.places import Field, field_name

_NAMES = {
    "projects": "home",
    "mcp_servers": "wiki",
    "chains": "api",
    "declare": "own.*",
    "roles": "clerk",
    "policies": "own",
}
"""A name that fits where people choose one."""


class Known(NamedTuple):
    place: Field
    part: dict[str, Any]

    @property
    def name(self) -> str:
        return field_name(self.place).replace("[0]", "[]")

    @property
    def kind(self) -> str:
        """`integer`, `number`, `boolean`, or what else the field holds."""
        named = self.part.get("type", "integer" if isinstance(self.part.get("const"), int) else "string")
        assert isinstance(named, str)
        return named


def leaves(schema_name: str) -> list[Known]:
    """The fields below which the schema says nothing more."""
    schema = FORMATS[schema_name].schema
    return list(_leaves(schema, schema, ()))


def _leaves(part: dict[str, Any], schema: dict[str, Any], place: Field) -> Iterator[Known]:
    if "$ref" in part:
        part = {**schema["$defs"][part["$ref"].rpartition("/")[2]], **part}
    below = [(name, one) for name, one in part.get("properties", {}).items()]
    for one in (*part.get("patternProperties", {}).values(), part.get("additionalProperties")):
        if isinstance(one, dict):
            below.append((_NAMES.get(str(place[-1]), "name"), one))
    if isinstance(part.get("items"), dict):
        below.append((0, part["items"]))
    for step, one in below:
        yield from _leaves(one, schema, (*place, step))
    if not below:
        yield Known(place, part)


def file_with(place: Field, value: Any) -> Any:
    """A file that has this field and what leads to it."""
    for step in reversed(place):
        value = [value] if isinstance(step, int) else {step: value}
    return value
