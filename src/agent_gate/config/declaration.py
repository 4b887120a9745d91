"""Reads the declarations of a section back from its dataclass: `model/setting.py` says what they are."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from agent_gate.model.setting import NOTHING, Setting
from agent_gate.model.tool import Json


class Declared(NamedTuple):
    """The type of a value, bare, and all that is said about it."""

    kind: Any
    setting: Setting
    may_be_none: bool = False


class DeclaredField(NamedTuple):
    """One field of a section."""

    name: str
    at: tuple[str, ...]
    """Its place in the file, from the section on; empty where its own fields stand there."""
    kind: Any
    setting: Setting
    required: bool
    default: Any
    """MISSING where there is none, or where it is made anew each time."""
    is_filled: bool
    """Neither has the class a default nor must the file say it: then it is None, or a section that says nothing."""
    may_be_none: bool


def declared(annotation: Any) -> Declared:
    """Read what an annotation declares; `X | None` is an X that may be absent."""
    setting, may_be_none = NOTHING, False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *found = get_args(annotation)
            for one in reversed(found):
                setting = setting.over(one) if isinstance(one, Setting) else setting
        elif origin in (Union, types.UnionType):
            (annotation,) = (one for one in get_args(annotation) if one is not type(None))
            may_be_none = True
        else:
            return Declared(annotation, setting, may_be_none)


@cache
def declared_fields(section: type, leaves_out: tuple[str, ...] = ()) -> tuple[DeclaredField, ...]:
    """The fields of a section in the order of the file."""
    known = (one for one in _fields(section) if one.name not in leaves_out)
    return tuple(sorted(known, key=lambda one: one.setting.order))


def _fields(section: Any) -> Iterator[DeclaredField]:
    hints = None
    for one in fields(section):
        annotation: Any = one.type
        if isinstance(annotation, str):
            hints = hints or get_type_hints(section, include_extras=True)
            annotation = hints[one.name]
        kind, setting, may_be_none = declared(annotation)
        at = () if setting.flat else setting.at or (one.name,)
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        required = not has_default if setting.needed is None else setting.needed
        is_filled = not has_default and not required
        yield DeclaredField(one.name, at, kind, setting, required, one.default, is_filled, may_be_none)


def written(value: Any) -> Json:
    """A value as a file would have it; of a section what is as without the file is left out."""
    if isinstance(value, list | tuple):
        return [written(one) for one in value]
    if not is_dataclass(value):
        return value.value if isinstance(value, Enum) else value
    known = declared_fields(type(value))  # type: ignore[arg-type]  # a dataclass, and not one's class
    fields = {one.name: (getattr(value, one.name), one.default) for one in known}
    return {name: written(given) for name, (given, default) in fields.items() if given != default}
