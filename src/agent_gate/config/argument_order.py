"""Rules that go by the order of arguments that signatures of functions had once: by name, not by parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.policy.encoding import encoded_value
from agent_gate.policy.patterns import is_glob, literals
from agent_gate.policy.signature import shown, signed_arguments

_KINDS = (
    (re.compile(r"[a-z][a-z0-9+.-]*://"), re.compile(r"ur[li]|link|href|endpoint|site|page|webhook|address")),
    (re.compile(r"~?\.{0,2}/"), re.compile(r"path|file|dir|folder|source|target|dest")),
    (re.compile(r"[^\s@]+@[^\s@]+\Z"), re.compile(r"mail|address|recipient|sender|\A(to|from|cc|bcc)\Z")),
)
"""Beginnings of texts of some kinds, and the names of arguments that hold them."""
_WILD = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"[0-9.e+-]*")
_PLACES_MAX = 8
"""Of tools with more signed arguments nothing is told: there would be too many ways to read a pattern."""


def only_by_key(pattern: str, tool: ToolDeclaration) -> str:
    """Say what is wrong with a pattern that matches calls of the tool only in the old order; otherwise empty."""
    now, once = signed_arguments(tool), signed_arguments(tool, by_key=True)
    inner = pattern.removeprefix(f"{tool.name}(").removesuffix(")")
    if now == once or tool.sign is not None or len(now) > _PLACES_MAX or not pattern.startswith(f"{tool.name}("):
        return ""
    readings = list(_readings(inner, len(now)))
    if any(_fits(parts, now, tool) for parts in readings):
        return ""
    found = next((parts for parts in readings if _fits(parts, once, tool)), None)
    if found is None:
        return ""
    by_name = dict(zip(once, found, strict=True))
    mended = f"{tool.name}({', '.join(by_name[name] for name in now)})"
    return (
        f"it matches only arguments in the order of their names ({', '.join(once)}), and those of a function stand in"
        f" the order of its parameters ({', '.join(now)}); write `{shown(mended)}`"
    )


def _readings(inner: str, places: int) -> Iterator[list[str]]:
    """The pattern place by place, in every way: values hold no `, `, but a `*` may stand for several places."""
    missing = places - 1 - inner.count(", ")
    if missing < 0:
        return
    if missing == 0:
        yield inner.split(", ")
        return
    for star in re.finditer(r"\*", inner):
        yield from _readings(f"{inner[: star.start()]}*, *{inner[star.end() :]}", places)


def _fits(parts: Sequence[str], names: Sequence[str], tool: ToolDeclaration) -> bool:
    schemas = tool.input_schema["properties"]
    return all(
        _may_be(part, schemas[name]) and _is_at_home(part, name, names) for part, name in zip(parts, names, strict=True)
    )


def _may_be(part: str, schema: Mapping[str, Json]) -> bool:
    """Tell whether a value that fits the schema can be written so; an absent one is empty."""
    if fnmatchcase("", part):
        return True
    if choices := schema.get("enum"):
        return any(fnmatchcase(encoded_value("", choice), part) for choice in choices)
    match schema.get("type"):
        case "boolean":
            return any(fnmatchcase(word, part) for word in ("true", "false"))
        case "integer" | "number":
            return all(_NUMBER.fullmatch(run) for run in (literals(part) if is_glob(part) else [part]))
        case _:
            return True


def _is_at_home(part: str, name: str, names: Sequence[str]) -> bool:
    """False for a URL, a path or an address where another argument is plainly the one that holds such."""
    beginning = _WILD.split(part)[0]
    for text, named in _KINDS:
        if text.match(beginning) and any(map(named.search, names)):
            return named.search(name) is not None
    return True
