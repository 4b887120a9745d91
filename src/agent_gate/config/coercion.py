"""Numbers and booleans from the environment: a value that is `${X}` and nothing else becomes what its field is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_gate.config.places import Field, value_at
from agent_gate.config.yaml_scalars import plain
from agent_gate.model.tool import Json

_REFERENCES_MAX = 20
_DIGITS = re.compile(r"-?[0-9]{1,16}\Z", re.ASCII)


def coerce(value: Json, places: Iterable[Field], schema: Mapping[str, Json]) -> None:
    """Replace the text at each place, in place, where the schema has a number or boolean there and the text is one.

    What does not fit is left to whoever validates.
    """
    for place in places:
        around, text = value_at(value, *place[:-1]), value_at(value, *place)
        if place and isinstance(text, str) and around is not None:
            around[place[-1]] = _coerced(text, set(_types_at(schema, place)))


def coerce_texts(value: Json, part: Mapping[str, Json]) -> None:
    """Turn text of digits into a number, in place, wherever the declaration of a field lets numbers be text."""
    if isinstance(value, dict):
        known = part.get("properties", {})
        below = [(key, known[key]) for key in value if key in known]
    elif isinstance(value, list):
        below = [(number, part.get("items", {})) for number in range(len(value))]
    else:
        return
    for key, one in below:
        if one.get("x-from-text") and isinstance(value[key], str) and _DIGITS.match(value[key]):
            value[key] = int(value[key])
        coerce_texts(value[key], one)


def _coerced(text: str, types: set[str]) -> Json:
    if "string" in types:
        return text
    try:
        # As the same word would be read in the file itself.
        read = plain(text)
    except ValueError:
        return text
    kind = "boolean" if isinstance(read, bool) else "number" if isinstance(read, int | float) else ""
    return read if kind in types else text


def _types_at(schema: Mapping[str, Json], place: Field) -> Iterator[str]:
    """Types that the value of a field may have; none where the schema does not say."""
    parts = list(_alternatives(schema, schema))
    for step in place:
        below = [part for around in parts for part in _below(around, step)]
        parts = [part for around in below for part in _alternatives(around, schema)]
    for part in parts:
        yield from _types(part)


def _types(part: Mapping[str, Json]) -> Iterator[str]:
    named = part.get("type", [])
    for name in named if isinstance(named, list) else [named]:
        yield "number" if name == "integer" else str(name)
    for choice in [*part.get("enum", ()), *([part["const"]] if "const" in part else [])]:
        yield "boolean" if isinstance(choice, bool) else "number" if isinstance(choice, int | float) else "string"


def _below(part: Mapping[str, Json], step: str | int) -> Iterator[Any]:
    if isinstance(step, int):
        yield part.get("items")
    elif step in part.get("properties", {}):
        yield part["properties"][step]
    else:
        matching = [below for name, below in part.get("patternProperties", {}).items() if _matches(name, step)]
        yield from matching or [part.get("additionalProperties")]


def _matches(pattern: str, name: str) -> bool:
    """A schema of somebody else may hold a pattern that only other languages read."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _alternatives(part: Any, schema: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """The part itself behind its references, and each of those between which a value can choose."""
    for _ in range(_REFERENCES_MAX):
        if not isinstance(part, dict) or "$ref" not in part:
            break
        part = value_at(schema, *str(part["$ref"]).removeprefix("#/").split("/"))
    if isinstance(part, dict):
        yield part
        for keyword in ("anyOf", "oneOf"):
            yield from (one for one in part.get(keyword, ()) if isinstance(one, dict))
