"""Builds the values of a file by the declarations of its sections, once the schema has found nothing wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, TypeAlias, get_args, get_origin

from agent_gate.config.declaration import declared, declared_fields
from agent_gate.config.json_schema import SectionsByName
from agent_gate.model.setting import Sections, Setting
from agent_gate.model.tool import Json

Build: TypeAlias = Callable[[Json], Any]

_ABSENT = object()


def builder_for(annotation: Any, sections: SectionsByName) -> Build:
    """Makes a value from what the file says; found once, because a policy may have thousands of rules."""
    kind, setting, _ = declared(annotation)
    return _builder(kind, setting, sections)


def _builder(kind: Any, setting: Setting, sections: SectionsByName) -> Build:
    made = setting.made
    if setting.shape is not None:
        kind, shaped, _ = declared(setting.shape)
        setting = setting.over(shaped)
    build = _of_kind(kind, setting, sections)
    return build if made is None else lambda value: made(build(value))


def _of_kind(kind: Any, setting: Setting, sections: SectionsByName) -> Build:
    if kind is int:
        return int  # to JSON Schema `8443.0` is an integer, to a socket it is not
    if isinstance(kind, type) and is_dataclass(kind):
        return _section(kind, setting, sections)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if kind is Sections:
        builders = {name: builder_for(one, sections) for name, one in sections.items()}
        return lambda value: {name: builders[name](one) for name, one in value.items()}
    origin, given = get_origin(kind), get_args(kind)
    if origin in (tuple, list):
        item = builder_for(given[0], sections)
        return lambda value: origin(map(item, value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = builder_for(given[0], sections), builder_for(given[1], sections)
        return lambda value: {key(name): item(one) for name, one in value.items()}
    return _as_it_is


def _as_it_is(value: Json) -> Json:
    return value


def _section(kind: type, setting: Setting, sections: SectionsByName) -> Build:
    known = declared_fields(kind, setting.leaves_out)
    fields = [(one, _builder(one.kind, one.setting, sections)) for one in known]

    def build(value: Mapping[str, Json]) -> Any:
        given = {}
        for one, field in fields:
            found = _found(value, one.at)
            if found is not _ABSENT:
                given[one.name] = field(found)
            elif one.is_filled:
                given[one.name] = None if one.may_be_none else field({})
        return given if setting.partial else kind(**given)

    return build


def _found(value: Mapping[str, Json], at: tuple[str, ...]) -> Any:
    found: Any = value
    for step in at:
        found = found.get(step, _ABSENT)
        if found is _ABSENT:
            break
    return found
