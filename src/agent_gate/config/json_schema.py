"""Makes the JSON Schema of a file from the declarations of its sections.

Three keywords are our own: `x-form` says what a pattern asks for, `x-remedy` what to do where a field is missing, and
`x-from-text` marks numbers that may be written as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias, get_args, get_origin

from agent_gate.config.declaration import DeclaredField, declared, declared_fields, written
from agent_gate.model.setting import Sections, Setting

Part: TypeAlias = dict[str, Any]
SectionsByName: TypeAlias = Mapping[str, Any]
"""Values of `Sections`: names, each with the dataclass that declares its section, or that in `Annotated`."""

_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KEYWORDS = {
    "about": "description",
    "only": "const",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
    "minimum": "minimum",
    "above": "exclusiveMinimum",
    "maximum": "maximum",
    "min_items": "minItems",
    "max_items": "maxItems",
    "unique": "uniqueItems",
    "max_names": "maxProperties",
    "secret": "writeOnly",
    "form": "x-form",
    "remedy": "x-remedy",
    "from_text": "x-from-text",
}
"""The keywords of those fields of `Setting` that a schema can say."""


def schema_for(annotation: Any, sections: SectionsByName) -> Part:
    """The schema of one value; nothing in it refers elsewhere."""
    kind, setting, _ = declared(annotation)
    return _part(kind, setting, sections)


def _part(kind: Any, setting: Setting, sections: SectionsByName) -> Part:
    if setting.shape is not None:
        kind, shaped, _ = declared(setting.shape)
        setting = setting.over(shaped)
    part = _of_kind(kind, setting, sections)
    for field, said in vars(setting).items():
        if field in _KEYWORDS:
            part[_KEYWORDS[field]] = said
    if setting.not_empty:
        part["minProperties"] = 1
    return part


def _of_kind(kind: Any, setting: Setting, sections: SectionsByName) -> Part:
    if kind is Any:
        return {}
    if setting.choices:
        return {"enum": list(setting.choices)}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        return _section(list(_entries(kind, setting, sections)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if kind is Sections:
        return _object({name: schema_for(one, sections) for name, one in sections.items()})
    origin, given = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(given)}
    if origin in (tuple, list):
        items = schema_for(given[0], sections)
        return _hiding({"type": "array", "items": items}, items)
    assert isinstance(origin, type), kind
    assert issubclass(origin, Mapping), kind
    return _mapping(given[0], schema_for(given[1], sections), setting)


def _mapping(names: Any, below: Part, setting: Setting) -> Part:
    if isinstance(names, type) and issubclass(names, Enum):
        return _object({one.value: below for one in names})
    if setting.names:
        part = {"type": "object", "additionalProperties": False, "patternProperties": {setting.names: below}}
    else:
        part = {"type": "object", **({"additionalProperties": below} if below else {})}
    return _hiding(part, below)


Entry: TypeAlias = tuple[tuple[str, ...], Part, bool]
"""A field of a section: its place, its schema, and True where it must be given."""


def _entries(kind: type, setting: Setting, sections: SectionsByName) -> Iterator[Entry]:
    for one in declared_fields(kind, setting.leaves_out):
        if one.setting.flat:
            yield from _entries(one.kind, one.setting, sections)
        else:
            part = _part(one.kind, one.setting, sections)
            if not setting.partial and _has_default(one):
                part["default"] = written(one.default)
            yield one.at, part, one.required and not setting.partial


def _has_default(one: DeclaredField) -> bool:
    """True where an absent field stands for a value; an empty one is what absence says anyway."""
    return one.setting.shape is None and not one.required and one.default not in (MISSING, None, "", ())


def _section(entries: Sequence[Entry]) -> Part:
    """The fields by their first keys; one with more keys stands in a section below."""
    properties: Part = {}
    required = []
    for first in dict.fromkeys(at[0] for at, _, _ in entries):
        below = [(at[1:], part, is_required) for at, part, is_required in entries if at[0] == first]
        at, part, is_required = below[0]
        properties[first] = _section(below) if at else part
        if is_required and not at:
            required.append(first)
    return _object(properties, required)


def _object(properties: Part, required: Sequence[str] = ()) -> Part:
    part = {"type": "object", "additionalProperties": False, "properties": properties}
    return _hiding({**part, "required": list(required)} if required else part, *properties.values())


def _hiding(part: Part, *below: Part) -> Part:
    """Take what may hold a secret for one: somebody may have written the secret in its place."""
    return {**part, "writeOnly": True} if any(one.get("writeOnly") for one in below) else part
