"""JSON Schema: one compiled validator a schema, whose complaints fit on a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

import jsonschema_rs

from agent_gate.model.codec import weight
from agent_gate.model.references import Place
from agent_gate.model.tool import Json

COMPLAINT_CHARS_MAX = 500
CHOICES_CHARS_MAX = 4_000
"""Of a complaint that lists the values to choose from: they are the schema's own, and what its reader needs."""
ARGUMENTS_NAMED_MAX = 20
_EXPLAINED_BYTES_MAX = 16_384
"""A larger value may be wrong in each of its many parts; to say why takes far longer than to find that it is."""
_OF_NUMBER_AND_NAMES = frozenset(
    {"additionalProperties", "maxItems", "maxProperties", "minItems", "minProperties", "required", "type"}
)
"""Keywords of a schema about a list or an object whatever its values are."""
_NOT_ONE_OF = " is not one of "
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
        return _line(list(compiled.iter_errors(value)))

    return validate


def misfit(
    schema: Mapping[str, Json], args: Mapping[str, Json], unknown: Collection[Place], *, hide_values: bool = False
) -> str:
    """Say what is wrong with arguments of which some are not known yet, as far as it can be told; else empty.

    `unknown` are the places of texts that stand for something else. Null for an argument that may be left out counts as
    left out.
    """
    absent = {name for name, value in args.items() if value is None and name not in schema.get("required", ())}
    given = {name: value for name, value in args.items() if name not in absent}
    mask = "the value" if hide_values else None
    compiled = jsonschema_rs.validator_for(dict(schema), retriever=_refuse_remote, mask=mask)
    if compiled.is_valid(given):
        return ""
    if weight(given, _EXPLAINED_BYTES_MAX) > _EXPLAINED_BYTES_MAX:
        return "" if unknown else _UNEXPLAINED
    return _line([error for error in compiled.iter_errors(given) if not _rests_on(error, unknown)])


def _rests_on(error: jsonschema_rs.ValidationError, unknown: Collection[Place]) -> bool:
    """Tell whether another value at one of these places might mend it."""
    at = tuple(error.instance_path)
    around = [place for place in unknown if place[: len(at)] == at]
    return at in around or bool(around and error.kind.name not in _OF_NUMBER_AND_NAMES)


def _line(errors: Sequence[jsonschema_rs.ValidationError]) -> str:
    chars_max = CHOICES_CHARS_MAX if any(map(_has_choices, errors)) else COMPLAINT_CHARS_MAX
    return " ".join("; ".join(map(_told, errors)).split())[:chars_max]


def _told(error: jsonschema_rs.ValidationError) -> str:
    place = ".".join(str(part) for part in error.instance_path)
    said = _said(error)
    return f"{place}: {said}" if place else said


def _said(error: jsonschema_rs.ValidationError) -> str:
    """The library's words, but where it hides what would be right: two values of an enum, none of alternatives."""
    if error.kind.name == "enum":
        # From the right: the value that was given may hold these words too.
        given = error.message.rpartition(_NOT_ONE_OF)[0]
        return f"{given[:COMPLAINT_CHARS_MAX]}{_NOT_ONE_OF}{', '.join(map(_shown, error.kind.value))}"
    if _has_choices(error):
        return ", or ".join(map(_said, _alternatives(error)))
    return error.message


def _has_choices(error: jsonschema_rs.ValidationError) -> bool:
    """An enum, or alternatives of which one is an enum."""
    return error.kind.name == "enum" or any(map(_has_choices, _alternatives(error)))


def _alternatives(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Say why each of them does not fit; empty where one does, or there are none."""
    branches = getattr(error.kind, "context", ())
    return [branch[0] for branch in branches] if all(branches) else []


def _shown(choice: Json) -> str:
    return json.dumps(choice, ensure_ascii=False)


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
"""Keywords of a schema about its arguments together, which one of them alone need not fulfil."""


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
