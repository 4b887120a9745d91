"""Signatures of the Home Assistant tools, as far as they go by the arguments alone, with no home connected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_gate.model.errors import ToolError
from agent_gate.model.limits import JSON_DEPTH_MAX, SIGNATURES_MAX
from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError

INDIRECT_TARGETS = ("area_id", "device_id", "floor_id", "label_id")
"""What only a connected Home Assistant can turn into entities."""

ALL = "all"

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_ENTITY_ID = re.compile(r"[a-z_][a-z0-9_]*\.[a-z0-9_]+")
_EVENT_TYPE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z0-9_]+)?")
_ENTITY_KEY = re.compile(r"(?:.*_)?entit(?:y_ids?|ies)|group_members")

# An id of one of these is taken for a target wherever it stands in the data; services have many names for
# such fields, and a list of them would always lack some.
_ENTITY_DOMAINS = (
    " ai_task air_quality alarm_control_panel assist_satellite automation binary_sensor button calendar camera climate"
    " conversation counter cover date datetime device_tracker event fan geo_location group humidifier image"
    " image_processing input_boolean input_button input_datetime input_number input_select input_text lawn_mower light"
    " lock media_player notify number person plant proximity remote scene schedule script select sensor siren stt sun"
    " switch tag text time timer todo tts update vacuum valve wake_word water_heater weather zone "
)


class ServiceCall(NamedTuple):
    """One call of a service and every entity that it names."""

    domain: str
    service: str
    entities: tuple[str, ...] = ()

    @property
    def signatures(self) -> tuple[str, ...]:
        """One per entity, and a second one under the entity's own domain where that is not the service's."""
        service = f"{self.domain}.{self.service}"
        if not self.entities:
            return (f"ha_call_service({service})",)
        found: dict[str, None] = {}
        for entity in self.entities:
            found[f"ha_call_service({service}, {entity})"] = None
            domain = entity.partition(".")[0]
            if domain not in (self.domain, ALL):
                found[f"ha_call_service({domain}.{self.service}, {entity})"] = None
        if len(found) > SIGNATURES_MAX:
            raise ArgumentError(f"the call reaches more than {SIGNATURES_MAX} targets", "split it into several calls")
        return tuple(found)


def service_call(args: Mapping[str, Json]) -> ServiceCall:
    """What `ha_call_service` with these arguments would call."""
    domain = _matching(_NAME, args, "domain", "a domain such as `light`")
    service = _matching(_NAME, args, "service", "a service such as `turn_on`")
    return ServiceCall(domain, service, tuple(dict.fromkeys(_named_entities(args))))


def scene_call(args: Mapping[str, Json]) -> ServiceCall:
    """What `ha_activate_scene` with these arguments would call."""
    scenes = tuple(dict.fromkeys(_ids("entity_id", args.get("entity_id"))))
    if not scenes or not all(scene.startswith("scene.") for scene in scenes):
        raise ArgumentError("`entity_id` of `ha_activate_scene` is not a scene", "give it as `scene.movie_night`")
    return ServiceCall("scene", "turn_on", scenes)


def _state(tool: str) -> Callable[[Mapping[str, Json]], tuple[str, ...]]:
    return lambda args: (f"{tool}({_matching(_ENTITY_ID, args, 'entity_id', 'an entity id such as `light.kitchen`')})",)


def _event(args: Mapping[str, Json]) -> tuple[str, ...]:
    return (f"ha_fire_event({_matching(_EVENT_TYPE, args, 'event_type', 'an event type such as `doorbell_rang`')})",)


SIGNATURES: Mapping[str, Callable[[Mapping[str, Json]], tuple[str, ...]]] = {
    "ha_call_service": lambda args: service_call(args).signatures,
    "ha_activate_scene": lambda args: scene_call(args).signatures,
    "ha_get_state": _state("ha_get_state"),
    "ha_get_entity_state": _state("ha_get_entity_state"),
    "ha_get_states": lambda _: ("ha_get_states",),
    "ha_fire_event": _event,
}
"""The tools whose signatures have a form of their own."""


def _matching(pattern: re.Pattern[str], args: Mapping[str, Json], name: str, wanted: str) -> str:
    value = args.get(name)
    if value is None:
        raise ArgumentError(f"`{name}` is missing", f"add {wanted}")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ArgumentError(f"`{name}` is not {wanted}", "use lower-case letters, digits and _")
    return value


def _named_entities(args: Mapping[str, Json]) -> Iterator[str]:
    """Every entity id in the arguments, in an order that does not depend on the order of keys."""
    _refuse_indirect(args)
    yield from _target("entity_id", args)
    for part in ("target", "data", "service_data"):
        value = args.get(part)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise ArgumentError(f"`{part}` is not an object", f"give it as `{part}: {{entity_id: light.kitchen}}`")
        _refuse_indirect(value)
        yield from _target("entity_id", value)
    rest = {name: value for name, value in args.items() if name not in ("domain", "service", "entity_id")}
    yield from _inside(rest, named="", depth=0)


def _refuse_indirect(part: Mapping[str, Json]) -> None:
    for name in INDIRECT_TARGETS:
        if name in part:
            raise ToolError(
                f"`{name}` cannot be resolved: no Home Assistant is connected here",
                code=2006,
                suggestion="name the entities, or judge the call where Home Assistant is connected",
            )


def _target(name: str, part: Mapping[str, Json]) -> Sequence[str]:
    value = part.get(name)
    if isinstance(value, list | tuple) and not value:
        raise ArgumentError(f"`{name}` is an empty list, which reaches nothing", "name an entity, or leave it out")
    return _ids(name, value)


def _ids(name: str, value: Json) -> list[str]:
    if value is None:
        return []
    ids = list(value) if isinstance(value, list | tuple) else [value]
    for each in ids:
        if not isinstance(each, str) or (each != ALL and not _ENTITY_ID.fullmatch(each)):
            raise ArgumentError(
                f"`{name}` is not an entity id or a list of them", "write each as `light.kitchen`, in lower case"
            )
    return ids


def _inside(value: Json, named: str, depth: int) -> Iterator[str]:
    """Ids below one value; `named` is the key that says that ids stand here, or empty."""
    if depth > JSON_DEPTH_MAX:
        raise ArgumentError(f"the arguments are nested deeper than {JSON_DEPTH_MAX} levels")
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _ids(named, key) if named else _ids_in_text(key)
            holds_ids = not named and _ENTITY_KEY.fullmatch(key)
            yield from _inside(value[key], key if holds_ids else "", depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item, named, depth + 1)
    elif named:
        yield from _ids(named, value)
    elif isinstance(value, str):
        yield from _ids_in_text(value)


def _ids_in_text(text: str) -> Iterator[str]:
    # Home Assistant takes ids in any case, and several in one text.
    for part in text.split(","):
        entity = part.strip().lower()
        if _ENTITY_ID.fullmatch(entity) and f" {entity.partition('.')[0]} " in _ENTITY_DOMAINS:
            yield entity
