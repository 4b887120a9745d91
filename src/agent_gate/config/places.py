"""Names a place in a file that people write, and shows their own words without letting them run wild."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

Field: TypeAlias = tuple[str | int, ...]
"""The path from the top of a file to a value: keys, and numbers of list items."""

_BARE = re.compile(r"[\w.*-]{1,60}\Z", re.ASCII)
_SHOWN_CHARS_MAX = 60


def field_name(field: Field) -> str:
    """`rules[2].action`: how messages name a field."""
    name = ""
    for step in field:
        if isinstance(step, int):
            name += f"[{step}]"
        elif _BARE.match(step):
            name += f".{step}" if name else step
        else:
            name += f"[{json.dumps(visible(step, _SHOWN_CHARS_MAX), ensure_ascii=False)}]"
    return name


def value_at(value: Json, *field: str | int) -> Json:
    """The value of a field, or None where the path to it ends or bends."""
    for step in field:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def mapping_at(value: Json, *field: str | int) -> dict[str, Any]:
    """The mapping in a field; empty where there is none."""
    found = value_at(value, *field)
    return found if isinstance(found, dict) else {}


def mappings_at(value: Json, *field: str | int) -> Iterator[tuple[Field, dict[str, Any]]]:
    """The mappings in the list of a field, each with its place."""
    found = value_at(value, *field)
    for number, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, dict):
            yield (*field, number), item


def shown(value: Json) -> str:
    """A value in backticks, cut when long."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"`{visible(value if isinstance(value, str) else json.dumps(value), _SHOWN_CHARS_MAX)}`"
