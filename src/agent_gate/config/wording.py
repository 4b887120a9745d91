"""Says in plain words what a value of a file must be, from the keyword of JSON Schema that it missed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_gate.model.tool import Json

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_OLD_BOOLEANS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})
_NUMBER_LIKE = re.compile(r"[-+]?[0-9.][0-9a-zA-Z_:.+-]*\Z")


def wording(keyword: str, limit: Any, value: Json, words: str, part: dict[str, Any]) -> str:
    """One message; `words` is how the value may be shown, `part` the piece of schema that it missed."""
    match keyword:
        case "type":
            return _type(limit[0], value, words)
        case "enum":
            return f"{words} is not one of {', '.join(map(str, limit))}"
        case "const":
            return f"{words} is not {limit}; it is the only value here"
        case "pattern":
            return f"{'empty, which' if words == '``' else words} is not {part['x-form']}"
        case "minimum" | "exclusiveMinimum":
            return f"{words} is too small; it must be {'at least' if keyword == 'minimum' else 'more than'} {limit}"
        case "maximum":
            return f"{words} is too large; it must be at most {limit}"
        case "minLength" | "minProperties":
            return "empty; write a value, or leave the field out"
        case "maxLength":
            return f"longer than {limit} characters"
        case "minItems":
            return f"needs at least {limit} {'item' if limit == 1 else 'items'}"
        case "maxItems":
            return f"has more than {limit} items"
        case "uniqueItems":
            return "names an item twice; keep one"
        case _:
            return f"does not fit ({keyword}); {part.get('description', 'see the reference')}"


def remedy(part: Mapping[str, Any]) -> str:
    """Say what to do about a field that is missing."""
    if "x-remedy" in part:
        return str(part["x-remedy"])
    if "enum" in part:
        *others, last = map(str, part["enum"])
        return f"write {', '.join(others)} or {last}" if others else f"write {last}"
    if "x-form" in part:
        return str(part["x-form"])
    if "description" in part:
        return f"{'list' if part.get('type') == 'array' else 'write'} {part['description']}"
    return "this field is required"


def _type(expected: str, value: Json, words: str) -> str:
    wanted = _TYPES[expected]
    if value is None:
        return f"empty, but must be {wanted}; write one, or leave the field out"
    text = f"{words} is not {wanted}"
    if expected == "boolean" and str(value).lower() in _OLD_BOOLEANS:
        return f"{text}; write true or false, without quotes"
    if expected in ("integer", "number") and isinstance(value, str) and _NUMBER_LIKE.match(value):
        return f"{text}; write a plain decimal number, without quotes"
    if expected == "string" and isinstance(value, bool | int | float):
        return f"{text}; write it in quotes"
    if expected == "array":
        return f"{text}; write [a, b]"
    return text
