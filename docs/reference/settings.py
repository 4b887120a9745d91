"""Prints the reference of one kind of file, `config`, `policy` or `plan`, from the declarations of its settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

from agent_gate.config.__main__ import FORMATS

GUIDES = {
    "config": "How to run a server with it: [serving](../guides/server.md).",
    "policy": "How to write one: [the guide](../guides/policy.md).",
    "plan": "How to run one: [plans and runs](../guides/plans.md).",
}
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
Part: TypeAlias = dict[str, Any]


def page(name: str) -> str:
    schema = FORMATS[name].schema
    title = schema["title"].removeprefix("agent-gate ")
    head = [
        f"# {title}",
        "",
        f"{schema['description']} {GUIDES[name]}",
        "",
        f"Generated from the declarations by `docs/reference/settings.py {name}`; a test keeps it current.",
        "Fields in bold must be given where their section is. Values marked as hidden are shown in no message.",
        f"For editors: `python -m agent_gate.config {name}` prints the same as JSON Schema.",
    ]
    return "\n".join([*head, *_section("", schema)]) + "\n"


def _section(path: str, part: Part) -> Iterator[str]:
    """The table of one section, and then those of the sections below it."""
    yield ""
    if path:
        yield f"## {path}"
    yield "| field | what it is | value | default |"
    yield "|---|---|---|---|"
    for name, field in part["properties"].items():
        shown = f"**`{name}`**" if name in part.get("required", ()) else f"`{name}`"
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        yield f"| {shown} | {_cell(field.get('description', ''))} | {_cell(_value(field))} | {_cell(default)} |"
    for name, field in part["properties"].items():
        place, below = _inner(f"{path}.{name}" if path else name, field)
        if "properties" in below:
            yield from _section(place, below)


def _inner(place: str, part: Part) -> tuple[str, Part]:
    """The section in a list or a mapping, and how its place is written."""
    while True:
        if "items" in part:
            place, part = f"{place}[]", part["items"]
        elif "patternProperties" in part:
            place, (part,) = f"{place}.NAME", part["patternProperties"].values()
        elif isinstance(part.get("additionalProperties"), dict):
            place, part = f"{place}.NAME", part["additionalProperties"]
        else:
            return place, part


def _value(part: Part) -> str:
    if "const" in part or "enum" in part:
        return ", ".join(f"`{json.dumps(one)}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        return "; ".join([f"a list; each {_value(part['items'])}", *_bounds(part)])
    if part["type"] == "string" and "x-form" in part:
        return "; ".join([part["x-form"], *_bounds(part)])
    named = [f"its {part['x-form']}"] if "x-form" in part else []
    return "; ".join([_WORDS[part["type"]], *named, *_bounds(part)])


def _bounds(part: Part) -> Iterator[str]:
    for keyword, words in (
        ("minimum", "at least {}"),
        ("exclusiveMinimum", "more than {}"),
        ("maximum", "at most {}"),
        ("maxLength", "at most {} characters"),
        ("minItems", "at least {} of them"),
        ("maxItems", "at most {} of them"),
        ("maxProperties", "at most {} of them"),
    ):
        if keyword in part:
            yield words.format(part[keyword])
    if part.get("uniqueItems"):
        yield "none twice"
    if part.get("writeOnly") and part["type"] == "string":
        yield "hidden"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(sys.argv[1]), end="")
