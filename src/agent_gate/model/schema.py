"""JSON Schema: one compiled validator a schema, whose complaints fit on a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jsonschema_rs

from agent_gate.model.tool import Json

COMPLAINT_CHARS_MAX = 500


def validator(schema: Mapping[str, Json], *, hide_values: bool = False) -> Callable[[Json], str | None]:
    """A function that says what is wrong with a value, or None; remote references are refused."""
    if not schema:
        return lambda _: None
    mask = "the value" if hide_values else None
    compiled = jsonschema_rs.validator_for(dict(schema), retriever=_refuse_remote, mask=mask)

    def validate(value: Json) -> str | None:
        if compiled.is_valid(value):
            return None
        problems = []
        for error in compiled.iter_errors(value):
            place = ".".join(str(part) for part in error.instance_path)
            problems.append(f"{place}: {error.message}" if place else error.message)
        return " ".join("; ".join(problems).split())[:COMPLAINT_CHARS_MAX]

    return validate


def _refuse_remote(uri: str) -> Json:
    raise ValueError(f"remote reference `{uri}` in a schema")
