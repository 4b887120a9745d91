"""The home that a case is played in: what its set-up says, in whichever of the likely shapes, as a simulated home."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_gate.simulated_home import Area, Device, RegistryEntry, SimulatedHome

KITCHEN = ("light.kitchen_main", "light.kitchen_sink", "light.kitchen_1", "light.kitchen_oven_lamp", "light.pantry")
"""What area `kitchen` holds where a case does not say otherwise; `switch.kitchen_kettle` stands there too."""

DEFAULT_ENTITIES = (*KITCHEN, "light.bedroom_lamp", "lock.front_door", "switch.kitchen_kettle")

_ENTITY_ID = re.compile(r"[a-z_][a-z0-9_]*\.[a-z0-9_]+")
_STATES = {"lock": "locked", "cover": "closed", "climate": "heat", "scene": "unknown", "media_player": "idle"}
_MEMBERS = ("members", "entities", "entity_id", "entity_ids", "group_members")


@dataclass
class Plan:
    """A home before it is built."""

    states: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    areas: dict[str, str] = field(default_factory=dict)
    """Names by id."""
    area_of: dict[str, str] = field(default_factory=dict)
    """Of an entity or a device."""
    device_of: dict[str, str] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    labels_of: dict[str, set[str]] = field(default_factory=dict)
    """Of an entity, a device or an area."""
    floor_of: dict[str, str] = field(default_factory=dict)
    scenes: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    services: set[tuple[str, str]] | None = None
    """Besides those that every simulated home has; None: whatever is called."""

    def need(self, entity_id: str) -> None:
        """It is there, whatever it may be."""
        if _ENTITY_ID.fullmatch(entity_id) and entity_id not in self.states:
            domain = entity_id.partition(".")[0]
            self.states[entity_id] = _STATES.get(domain, "off"), {"entity_id": []} if domain == "group" else {}

    def put(self, entity_id: str, told: Any) -> None:
        """One entity: its state, its members, or all that is to be said of it."""
        self.need(entity_id)
        if isinstance(told, str | bool | int | float):
            self.states[entity_id] = _word(told), self.states[entity_id][1]
        elif isinstance(told, list):
            self.join(entity_id, told)
        elif isinstance(told, Mapping):
            self._describe(entity_id, told)

    def _describe(self, entity_id: str, told: Mapping[str, Any]) -> None:
        state, attributes = self.states[entity_id]
        attributes |= told.get("attributes") or {}
        self.states[entity_id] = _word(told.get("state", state)), attributes
        for name in _MEMBERS:
            self.join(entity_id, told.get(name) or attributes.get(name) or [])
        for place in _listed(told.get("area_id") or told.get("area")):
            self.area_of[entity_id] = self.area(place)
        for device in _listed(told.get("device_id") or told.get("device")):
            self.devices.add(device)
            self.device_of[entity_id] = device
        self.labels_of.setdefault(entity_id, set()).update(_listed(told.get("labels") or told.get("label_id")))

    def area(self, area_id: str, name: str = "") -> str:
        if name or area_id not in self.areas:
            self.areas[area_id] = name or area_id.replace("_", " ").title()
        return area_id

    def join(self, entity_id: str, members: Any) -> None:
        """Make an entity pass calls on; members of a scene may come with the states that it gives them."""
        ids = [member for member in _listed(members) if isinstance(member, str)]
        if not ids:
            return
        self.need(entity_id)
        for member in ids:
            self.need(member)
        if entity_id.startswith("scene."):
            told = members if isinstance(members, Mapping) else {}
            self.scenes[entity_id] = {member: _wanted(member, told.get(member)) for member in ids}
        state, attributes = self.states[entity_id]
        self.states[entity_id] = state, {**attributes, "entity_id": ids}

    def build(self) -> SimulatedHome:
        devices = {name: Device(name, self.area_of.get(name)) for name in sorted(self.devices)}
        placed = {*self.area_of, *self.device_of, *self.labels_of} & self.states.keys()
        entries = [
            RegistryEntry(
                entity_id,
                self.area_of.get(entity_id),
                self._device_id(entity_id, devices),
                labels=tuple(sorted(self.labels_of.get(entity_id, ()))),
            )
            for entity_id in sorted(placed)
        ]
        home = SimulatedHome(
            entities=self.states,
            areas=[Area(area_id, name) for area_id, name in self.areas.items()],
            devices=devices.values(),
            entries=entries,
        )
        home.scenes.update(self.scenes)
        return home

    def _device_id(self, entity_id: str, devices: Mapping[str, Device]) -> str | None:
        name = self.device_of.get(entity_id)
        return devices[name].id if name else None


def plan_of(steps: Iterable[Mapping[str, Any]], args: Any) -> Plan:
    """What the set-up tells; where it names no entities, those that the call names are there too."""
    plan, told = Plan(), [_told(step) for step in steps]
    if not told:
        for entity_id in (*DEFAULT_ENTITIES, *_ids_in(args)):
            plan.need(entity_id)
        plan.area("kitchen")
        plan.area_of |= dict.fromkeys((*KITCHEN, "switch.kitchen_kettle"), "kitchen")
        return plan
    for each in told:
        _read(plan, each)
    if not any(_names_entities(each) for each in told):
        for entity_id in _ids_in(args):
            plan.need(entity_id)
    return plan


def _told(step: Mapping[str, Any]) -> Any:
    """The verb's value, or one entity with what else the step says of it."""
    told = step["ha_state"]
    return {**step, "entity_id": told, "ha_state": None} if isinstance(told, str) else told


def _read(plan: Plan, told: Any) -> None:
    if isinstance(told, str):
        plan.need(told)
    elif isinstance(told, list):
        for each in told:
            _read(plan, each)
    elif isinstance(told, Mapping):
        one = next((key for key in _ONE_OF if isinstance(told.get(key), str)), "")
        if one:
            _section(plan, one, {told[one]: {key: value for key, value in told.items() if key != one}})
            return
        for key, value in told.items():
            _section(plan, key, value)


_ONE_OF = ("entity_id", "entity", "group", "scene", "device", "device_id", "area", "area_id", "label", "floor")
"""Keys that name the one thing that all the others speak of; those first that may stand in another."""


def _section(plan: Plan, key: str, value: Any) -> None:
    """One part of what is told; a part that nobody knows is taken for an area, or passed over."""
    domain, dot, name = key.partition(".")
    if dot and domain not in _PLACES:
        plan.put(key, value)
        return
    kind = next((word for word in _KINDS if word in domain.lower()), "")
    if kind == "service":
        named = (each.partition(".") for each, _ in _items(value))
        plan.services = (plan.services or set()) | {(domain, service) for domain, _, service in named}
    elif dot or (not kind and isinstance(value, list)):
        _place(plan, kind or "area", name or key, value)
    elif kind:
        for each, told in _items(value):
            _place(plan, kind, each, told)


_PLACES = ("area", "device", "label", "floor")
_KINDS = ("service", "group", "scene", *_PLACES, "member", "entit", "state", "script", "automation", "light", "lock")


def _place(plan: Plan, kind: str, name: str, told: Any) -> None:
    """One thing of a kind with what it holds, or an entity with where it is."""
    if kind in _PLACES and _ENTITY_ID.fullmatch(name):
        plan.put(name, {"label_id" if kind == "label" else kind: told})
        return
    match kind:
        case "group" | "scene":
            _members(plan, _in_domain(kind, name), told)
        case "member" | "entit" | "state":
            plan.put(name, told)
        case "area":
            _area(plan, name, told)
        case "device":
            _device(plan, name, told)
        case "label":
            for each in _listed(told, *_HOLDS):
                plan.labels_of.setdefault(each, set()).add(name)
                plan.need(each)
        case "floor":
            for each in _listed(told, *_HOLDS):
                plan.floor_of[plan.area(each)] = name
        case _:
            plan.put(_in_domain(kind, name), told)


_HOLDS = ("entities", "devices", "areas", "members", "entity_ids", "holds", "contains")


def _members(plan: Plan, entity_id: str, told: Any) -> None:
    if isinstance(told, Mapping) and not any("." in key for key in told):
        plan.put(entity_id, told)
    else:
        plan.join(entity_id, told)


def _area(plan: Plan, name: str, holds: Any) -> None:
    area_id = plan.area(name, holds.get("name", "") if isinstance(holds, Mapping) else "")
    for each in _listed(holds, *_HOLDS):
        plan.area_of[each] = area_id
        if "." in each:
            plan.need(each)
        else:
            plan.devices.add(each)
    if isinstance(holds, Mapping):
        plan.labels_of.setdefault(area_id, set()).update(_listed(holds.get("labels")))
        for floor in _listed(holds.get("floor_id") or holds.get("floor")):
            plan.floor_of[area_id] = floor


def _device(plan: Plan, name: str, holds: Any) -> None:
    plan.devices.add(name)
    for each in _listed(holds, *_HOLDS):
        plan.device_of[each] = name
        plan.need(each)
    if isinstance(holds, Mapping):
        plan.labels_of.setdefault(name, set()).update(_listed(holds.get("labels")))
        for area in _listed(holds.get("area_id") or holds.get("area")):
            plan.area_of[name] = plan.area(area)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
        return
    for each in [value] if isinstance(value, str) else value:
        if isinstance(each, str):
            yield each, None
        else:
            keys = ("id", "entity_id", "area_id", "device_id", "label_id", "floor_id", "name")
            found = next(key for key in keys if isinstance(each.get(key), str))
            yield each[found], {key: told for key, told in each.items() if key != found}


def _listed(value: Any, *keys: str) -> list[Any]:
    if isinstance(value, Mapping) and keys:
        return [each for key in keys for each in _listed(value.get(key))]
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def _in_domain(domain: str, name: str) -> str:
    return name if "." in name else f"{domain}.{name}"


def _wanted(member: str, told: Any) -> dict[str, Any]:
    if isinstance(told, Mapping):
        return {"state": "on", **told}
    return {"state": _word(told) if told is not None else _STATES.get(member.partition(".")[0], "on")}


def _word(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _names_entities(told: Any) -> bool:
    if isinstance(told, Mapping):
        return any("." in key or key.lower() in ("entities", "states", "entity_id", "entity") for key in told)
    return bool(told)


def _ids_in(value: Any) -> Iterator[str]:
    """Everything in the arguments that is an id, so that a case need not list what it names."""
    if isinstance(value, str):
        if _ENTITY_ID.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _ids_in(key)
            yield from _ids_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _ids_in(each)
