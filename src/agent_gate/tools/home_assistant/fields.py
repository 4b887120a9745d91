"""Fields by which services of Home Assistant name what they reach, beside `entity_id` and the places of a target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError

ALL = "all"
INDIRECT_TARGETS = ("area_id", "device_id", "floor_id", "label_id")
"""Fields that only a connected Home Assistant can turn into entities."""
CONFIG_ENTRY, DOMAIN, GLOB = "config_entry_id", "domain", "entity_glob"
"""Likewise, in fields of some services."""
PLACES = (*INDIRECT_TARGETS, CONFIG_ENTRY, DOMAIN, GLOB)
ENTITY, TARGET, OBJECT_ID, ANY, GROUPED = "entity", "target", "object_id", "any", "grouped"

_ENTITY_ID = re.compile(r"[a-z_][a-z0-9_]*\.[a-z0-9_]+")
_OBJECT_ID = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and how its value is to be read."""

    kind: str
    """One of PLACES; or ids of entities, a whole target, a name within a domain, or what may be any of a domain."""
    domain: str = ""
    may_be_new: bool = False
    """True where the service makes what it names, where that is not there yet."""
    inner: Mapping[str, Field] = field(default_factory=lambda: MappingProxyType({}))
    """Of an object that holds fields again."""


Fields = Mapping[str, Field]

UNDESCRIBED: Mapping[str, Fields] = {
    "device_tracker.see": {
        "dev_id": Field(OBJECT_ID, "device_tracker", may_be_new=True),
        "mac": Field(ANY, "device_tracker"),  # no server tells which tracker has which address
    },
    "group.remove": {"object_id": Field(OBJECT_ID, "group")},
    "group.set": {"object_id": Field(OBJECT_ID, "group", may_be_new=True)},
    "homeassistant.reload_config_entry": {"entry_id": Field(CONFIG_ENTRY)},
    "recorder.purge_entities": {"domains": Field(DOMAIN), "entity_globs": Field(GLOB)},
    "scene.create": {"scene_id": Field(OBJECT_ID, "scene", may_be_new=True)},
}
"""Fields that servers describe as mere text, found by going through their whole list of services."""

WITHOUT_A_FIELD: Mapping[str, str] = {"homeassistant.set_location": "zone.home"}
"""Services that reach one entity, and have no field for it."""


@dataclass(frozen=True, slots=True)
class Read:
    """One thing that a field names."""

    kind: str
    """One of PLACES, or `entity`."""
    name: str
    must_exist: bool = True
    is_id: bool = True
    """True where it stands there as it is called elsewhere, and not in words of this field alone."""


def read_fields(fields: Fields, part: Mapping[str, Json]) -> Iterator[Read]:
    """Find what one part of the arguments names by these fields."""
    for name, known in fields.items():
        value = part.get(name)
        if value is not None:
            yield from _read(name, known, value)


def _read(name: str, known: Field, value: Json) -> Iterator[Read]:
    match known.kind:
        case "entity":
            yield from (Read(ENTITY, each) for each in ids(name, value))
        case "target":
            yield from _of_target(name, value)
        case "object_id":
            yield Read(ENTITY, f"{known.domain}.{_object_id(name, value)}", not known.may_be_new, is_id=False)
        case "any":
            yield Read(ENTITY, ALL, is_id=False)
        case "grouped":
            for each in _listed(value):
                if isinstance(each, Mapping):
                    yield from read_fields(known.inner, each)
        case _:
            yield from (Read(known.kind, each, is_id=False) for each in place_ids(name, value))


def _of_target(name: str, value: Json) -> Iterator[Read]:
    if not isinstance(value, Mapping):
        yield from (Read(ENTITY, each) for each in ids(name, value))
        return
    yield from (Read(ENTITY, each) for each in ids("entity_id", value.get("entity_id")))
    for kind in INDIRECT_TARGETS:
        if value.get(kind) is not None:
            yield from (Read(kind, each, is_id=False) for each in place_ids(kind, value[kind]))


def ids(name: str, value: Json) -> list[str]:
    """Ids of entities, or `all`, where nothing else may stand."""
    if value is None:
        return []
    found = _listed(value)
    for each in found:
        if not isinstance(each, str) or (each != ALL and not is_entity_id(each)):
            raise ArgumentError(
                f"`{name}` is not an entity id or a list of them", "write each as `light.kitchen`, in lower case"
            )
    return found


def is_entity_id(text: str) -> bool:
    return _ENTITY_ID.fullmatch(text) is not None


def place_ids(name: str, value: Json) -> list[str]:
    found = _listed(value)
    if not found or not all(isinstance(each, str) and each for each in found):
        raise ArgumentError(f"`{name}` is not an id or a list of them", f"write it as `{name}: kitchen`")
    if any("{" in each for each in found):
        raise ArgumentError(f"`{name}` holds a template, and templates are not rendered here", "give the id itself")
    return found


def _object_id(name: str, value: Json) -> str:
    """As servers read it: a number is taken for text, and capital letters, where they are taken, for small ones."""
    text = str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _OBJECT_ID.fullmatch(text):
        raise ArgumentError(f"`{name}` is not a name", "use lower-case letters, digits and _")
    return text


def _listed(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else [value]
