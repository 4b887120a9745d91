"""JSON Schema: one compiled validator a schema, whose complaints fit on a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jsonschema_rs

from agent_gate.model.codec import weight
from agent_gate.model.tool import Json

COMPLAINT_CHARS_MAX = 500
ARGUMENTS_NAMED_MAX = 20
_EXPLAINED_BYTES_MAX = 16_384
"""A larger value may be wrong in each of its many parts; to say why takes far longer than to find that it is."""
_UNEXPLAINED = "it does not fit its schema, and is too large to say where; try with less"


def validator(schema: Mapping[str, Json], *, hide_values: bool = False) -> Callable[[Json], str | None]:
    """A function that says what is wrong with a value, or None; remote references are refused."""
    if not schema:
        return lambda _: None
    mask = "the value" if hide_values else None
    compiled = jsonschema_rs.validator_for(dict(schema), retriever=_refuse_remote, mask=mask)

    def validate(value: Json) -> str | None:
        if compiled.is_valid(value):
            return None
        if weight(value, _EXPLAINED_BYTES_MAX) > _EXPLAINED_BYTES_MAX:
            return _UNEXPLAINED
        return " ".join("; ".join(map(_told, compiled.iter_errors(value))).split())[:COMPLAINT_CHARS_MAX]

    return validate


def _told(error: jsonschema_rs.ValidationError) -> str:
    place = ".".join(str(part) for part in error.instance_path)
    return f"{place}: {error.message}" if place else error.message


def arguments_named(schema: Mapping[str, Json]) -> str:
    """The arguments that a schema knows, those first that must be given: what to tell whoever gave others."""
    known, required = schema.get("properties", {}), schema.get("required", ())
    named = [
        f"{name} (required)" if name in required else name
        for name in sorted(known, key=lambda name: (name not in required, name))
    ]
    return f"its arguments are {', '.join(named[:ARGUMENTS_NAMED_MAX])}" if named else "it takes no arguments"


def names_without_null(schema: Mapping[str, Json]) -> frozenset[str]:
    """The arguments that may be left out and that null does not fit; models in strict mode send it all the same."""
    required = schema.get("required", ())
    optional = {name: about for name, about in schema.get("properties", {}).items() if name not in required}
    unclear = [name for name, about in optional.items() if _admits_null(about) is None]
    refused = {name for name, about in optional.items() if _admits_null(about) is False}
    if unclear:
        alone = jsonschema_rs.validator_for(
            {word: told for word, told in schema.items() if word not in _OF_ALL_ARGUMENTS}, retriever=_refuse_remote
        )
        refused |= {name for name in unclear if not alone.is_valid({name: None})}
    return frozenset(refused)


_OF_ALL_ARGUMENTS = frozenset(
    {
        "allOf", "anyOf", "dependentRequired", "dependentSchemas", "else", "if", "minProperties", "not", "oneOf",
        "required", "then",
    }
)  # fmt: skip
"""What a schema says of its arguments together, which one of them alone need not fulfil."""


def _admits_null(about: Json) -> bool | None:
    """None where only a validator can tell; most schemas name one type."""
    kind = about.get("type") if isinstance(about, Mapping) else None
    return False if isinstance(kind, str) and kind != "null" else None


def without_nulls(args: Mapping[str, Json], names: frozenset[str]) -> Mapping[str, Json]:
    """The same arguments, where null under one of these names is as if it were absent."""
    if not any(value is None and name in names for name, value in args.items()):
        return args
    return {name: value for name, value in args.items() if value is not None or name not in names}


def _refuse_remote(uri: str) -> Json:
    raise ValueError(f"remote reference `{uri}` in a schema")
