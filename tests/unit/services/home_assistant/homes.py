"""Homes in memory, for what is pure over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_gate.services.home_assistant.home import Area, Device, Entity, Home, RegistryEntry, ServiceInfo
from tests.gates import HandClock

SERVICES = (
    "light.turn_on light.turn_off homeassistant.turn_on homeassistant.turn_off scene.turn_on scene.apply scene.create"
    " lock.lock lock.unlock media_player.join notify.phone siren.turn_off siren.turn_on tts.speak"
    " zwave_js.refresh_value"
)


def entity(name: str, state: str = "off", context_id: str = "", /, **attributes: Any) -> Entity:
    at = "2026-03-04T12:00:00+00:00"
    return Entity(name, state, attributes, at, at, context_id)


def a_home(
    *entities: Entity | str,
    areas: Sequence[Area] = (),
    devices: Sequence[Device] = (),
    registry: Sequence[RegistryEntry] = (),
    services: str = SERVICES,
    labels: Mapping[str, str] | None = None,
    live: bool = True,
) -> Home:
    home = Home(HandClock())
    home.replace_entities(entity(each) if isinstance(each, str) else each for each in entities)
    named = (name.split(".") for name in services.split())
    infos = [ServiceInfo(domain, service, "", "", {}, None) for domain, service in named]
    home.learn(areas=areas, devices=devices, registry=registry, services=infos, labels=labels or {})
    home.in_step(live=live)
    return home
