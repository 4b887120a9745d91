"""Targets of calls: which entities they name, directly or by group, device and area."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agent_gate.model.tool import Json
from agent_gate.simulated_home.faults import Invalid
from agent_gate.simulated_home.states import State

if TYPE_CHECKING:
    from agent_gate.simulated_home.household import Household

TARGET_KEYS = ("entity_id", "device_id", "area_id")
GROUP_DEPTH_MAX = 10
_ENTITY_ID = re.compile(r"(?!.+__)(?!_)[\da-z_]+(?<!_)\.(?!_)[\da-z_]+(?<!_)")


def is_entity_id(text: str) -> bool:
    return _ENTITY_ID.fullmatch(text) is not None


def checked_target(target: Mapping[str, Json], *path: str) -> dict[str, list[str]]:
    """Each key as a list; an entity that does not exist is no error, a malformed id is."""
    return {key: _ids(key, target[key], *path) for key in TARGET_KEYS if key in target}


def _ids(key: str, value: Json, *path: str) -> list[str]:
    given = value.split(",") if isinstance(value, str) and key == "entity_id" else value
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Invalid("not a valid value for dictionary value", *path, key)
    ids = [one.strip().lower() if key == "entity_id" else one for one in given]
    if key == "entity_id" and not all(one in ("all", "none") or is_entity_id(one) for one in ids):
        raise Invalid("not a valid value for dictionary value", *path, key)
    return [one for one in ids if one != "none"]


def found(home: Household, target: Mapping[str, list[str]], domains: tuple[str, ...]) -> tuple[State, ...]:
    """The entities that exist and that the service acts on; whatever else was named is silently left out."""
    ids = target.get("entity_id", [])
    wanted = set(home.states) if "all" in ids else expanded(home, ids)
    for device_id in target.get("device_id", []):
        wanted |= home.registries.of_device(device_id)
    for area_id in target.get("area_id", []):
        wanted |= home.registries.in_area(area_id)
    states = (home.states[entity_id] for entity_id in home.states if entity_id in wanted)
    return tuple(state for state in states if not domains or state.domain in domains)


def expanded(home: Household, ids: Iterable[str], depth: int = 0) -> set[str]:
    """Groups are replaced by their members."""
    result: set[str] = set()
    for entity_id in ids:
        state = home.states.get(entity_id)
        if state is None or state.domain != "group" or depth == GROUP_DEPTH_MAX:
            result.add(entity_id)
        else:
            result |= expanded(home, state.attributes.get("entity_id", ()), depth + 1)
    return result
