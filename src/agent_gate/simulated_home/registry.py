"""Areas, devices and entries of entities, and what each looks like in its registry's list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from agent_gate.model.tool import Json


def _id(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Area:
    area_id: str
    name: str
    aliases: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        return {
            "aliases": list(self.aliases),
            "area_id": self.area_id,
            "icon": None,
            "name": self.name,
            "picture": None,
        }


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    area_id: str | None = None
    key: str = ""

    @property
    def id(self) -> str:
        return _id("device", self.key or self.name)

    def as_json(self) -> dict[str, Json]:
        return {
            "area_id": self.area_id,
            "configuration_url": None,
            "config_entries": [_id("demo")],
            "connections": [],
            "disabled_by": None,
            "entry_type": None,
            "hw_version": None,
            "id": self.id,
            "identifiers": [["demo", self.key or self.name]],
            "manufacturer": None,
            "model": None,
            "name_by_user": None,
            "name": self.name,
            "serial_number": None,
            "sw_version": None,
            "via_device_id": None,
        }


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    entity_id: str
    area_id: str | None = None
    device_id: str | None = None
    platform: str = "demo"
    name: str | None = None
    labels: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        return {
            "area_id": self.area_id,
            "config_entry_id": _id("demo"),
            "device_id": self.device_id,
            "disabled_by": None,
            "entity_category": None,
            "entity_id": self.entity_id,
            "has_entity_name": False,
            "hidden_by": None,
            "icon": None,
            "id": _id("entity", self.entity_id),
            "labels": list(self.labels),
            "name": self.name,
            "options": {"conversation": {"should_expose": False}},
            "original_name": None,
            "platform": self.platform,
            "translation_key": None,
            "unique_id": self.entity_id.partition(".")[2],
        }


class Registries:
    def __init__(self, areas: Iterable[Area], devices: Iterable[Device], entries: Iterable[RegistryEntry]) -> None:
        self.areas = {area.area_id: area for area in areas}
        self.devices = {device.id: device for device in devices}
        self.entries = {entry.entity_id: entry for entry in entries}

    def in_area(self, area_id: str) -> set[str]:
        """Entities that the registry puts there, by themselves or through their devices."""
        return {entry.entity_id for entry in self.entries.values() if self.area_of(entry) == area_id}

    def of_device(self, device_id: str) -> set[str]:
        return {entry.entity_id for entry in self.entries.values() if entry.device_id == device_id}

    def area_of(self, entry: RegistryEntry) -> str | None:
        device = self.devices.get(entry.device_id or "")
        return entry.area_id or (device.area_id if device else None)
