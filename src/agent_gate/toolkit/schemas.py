"""Input schemas from what a function says of its parameters."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from agent_gate.model.tool import Json

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def schema_of(function: Callable[..., Any]) -> dict[str, Json]:
    """The JSON Schema that a function's parameters and annotations amount to."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    hints = typing.get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool `{function.__name__}` takes *args or **kwargs: give it a schema")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"argument `{parameter.name}` of tool `{function.__name__}` has no name to be given by")
        properties[parameter.name] = _type_schema(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _type_schema(hint: Any) -> dict[str, Json]:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type_schema(part) for part in typing.get_args(hint)]}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(hint))}
    if hint is type(None):
        return {"type": "null"}
    name = _JSON_TYPES.get(origin or hint)
    return {"type": name} if name else {}
