"""Places of entities: by area, device, label, floor and integration, as the registries tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agent_gate.services.home_assistant.things import Area, Device, RegistryEntry


class Places:
    """Made anew whenever a registry has changed; ids that lead nowhere are passed over.

    Hidden entities and those with a category are in, though servers leave them out of most targets: a judgement
    may cover too much, never too little. Disabled ones are out: nothing acts on them.
    """

    def __init__(
        self,
        areas: Mapping[str, Area],
        devices: Mapping[str, Device],
        registry: Mapping[str, RegistryEntry],
    ) -> None:
        self._area_of: dict[str, str] = {}
        self._in_area = defaultdict[str, list[str]](list)
        self._of_device = defaultdict[str, list[str]](list)
        self._with_label = defaultdict[str, list[str]](list)
        self._on_floor = defaultdict[str, list[str]](list)
        self._of_config_entry = defaultdict[str, list[str]](list)
        self._of_integration = defaultdict[str, list[str]](list)
        for entity_id in sorted(registry):
            self._place(registry[entity_id], areas, devices)
        self._areas_by_word = _areas_by_word(areas.values())
        self.labels = frozenset(_labels(areas.values(), devices.values(), registry.values()))
        """Those that something carries."""
        self.floors = frozenset(area.floor_id for area in areas.values() if area.floor_id)

    def _place(self, entry: RegistryEntry, areas: Mapping[str, Area], devices: Mapping[str, Device]) -> None:
        device = devices.get(entry.device_id) if entry.device_id else None
        area = areas.get(entry.area_id or (device.area_id if device else None) or "")
        if area:
            self._area_of[entry.entity_id] = area.area_id
        if entry.is_disabled:
            return
        self._of_integration[entry.platform].append(entry.entity_id)
        if entry.config_entry_id:
            self._of_config_entry[entry.config_entry_id].append(entry.entity_id)
        if entry.device_id:
            self._of_device[entry.device_id].append(entry.entity_id)
        if area:
            self._in_area[area.area_id].append(entry.entity_id)
        if area and area.floor_id:
            self._on_floor[area.floor_id].append(entry.entity_id)
        for label in {*entry.labels, *(device.labels if device else ()), *(area.labels if area else ())}:
            self._with_label[label].append(entry.entity_id)

    def area_of(self, entity_id: str) -> str | None:
        return self._area_of.get(entity_id)

    def find_area(self, text: str) -> Area | None:
        return self._areas_by_word.get(text.strip().casefold())

    def in_area(self, area_id: str) -> Sequence[str]:
        return self._in_area.get(area_id, ())

    def of_device(self, device_id: str) -> Sequence[str]:
        return self._of_device.get(device_id, ())

    def with_label(self, label_id: str) -> Sequence[str]:
        return self._with_label.get(label_id, ())

    def on_floor(self, floor_id: str) -> Sequence[str]:
        return self._on_floor.get(floor_id, ())

    def of_config_entry(self, config_entry_id: str) -> Sequence[str]:
        return self._of_config_entry.get(config_entry_id, ())

    def of_integration(self, name: str) -> Sequence[str]:
        return self._of_integration.get(name, ())


def _areas_by_word(areas: Iterable[Area]) -> dict[str, Area]:
    """By id, name and alias, casefolded; where two share a word, ids go before names, and names before aliases."""
    found: dict[str, Area] = {}
    known = list(areas)
    for words in (lambda area: (area.area_id,), lambda area: (area.name,), lambda area: area.aliases):
        for area in known:
            for word in words(area):
                found.setdefault(word.strip().casefold(), area)
    return found


def _labels(areas: Iterable[Area], devices: Iterable[Device], entries: Iterable[RegistryEntry]) -> Iterable[str]:
    for things in (areas, devices, entries):
        for thing in things:
            yield from thing.labels
