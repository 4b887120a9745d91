"""The copy of the home: read at any time, without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from agent_gate.model.bounds import HOME_ENTITIES_MAX
from agent_gate.ports.surroundings import Clock
from agent_gate.services.home_assistant.places import Places
from agent_gate.services.home_assistant.things import Area, Device, Entity, RegistryEntry, Remembered, ServiceInfo

__all__ = ["Area", "Device", "Entity", "Home", "RegistryEntry", "Remembered", "ServiceInfo"]


class Home:
    """A copy that the connection keeps in step; change it by the methods of its second half only."""

    def __init__(self, clock: Clock) -> None:
        self.version = ""
        """The server's, for instance `2024.3.3`; empty before the first connection."""
        self.entities: dict[str, Entity] = {}
        self.areas: Mapping[str, Area] = {}
        self.devices: Mapping[str, Device] = {}
        self.registry: Mapping[str, RegistryEntry] = {}
        self.services: Mapping[tuple[str, str], ServiceInfo] = {}
        self.labels: Mapping[str, str] = {}
        self.floors: Mapping[str, str] = {}
        """Names by id; both are empty where the server is too old to know them."""
        self._clock = clock
        self._in_step_at = clock.monotonic()
        self._is_ready = self._is_live = self._knows_places = False
        self._remembered: Remembered | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._sorted: list[str] | None = None
        self._places: Places | None = None

    @property
    def is_ready(self) -> bool:
        """Tell whether it has been read whole at least once, from a server that was running."""
        return self._is_ready

    @property
    def remembered(self) -> Remembered | None:
        """The copy of an earlier gate, while there is no other: good to look at, never to act by."""
        return self._remembered

    @property
    def is_live(self) -> bool:
        """Tell whether the connection feeds it now."""
        return self._is_live

    @property
    def knows_places(self) -> bool:
        """Tell whether areas, devices and entries of the registry have been read at least once; REST tells none."""
        return self._knows_places

    @property
    def is_settled(self) -> bool:
        """Tell whether no registry is known to have changed since it was read."""
        return self._settled.is_set()

    async def settled(self) -> None:
        await self._settled.wait()

    @property
    def age_s(self) -> float:
        """Tell how long ago it was last known to be in step with the server."""
        if self._remembered is not None:
            # By the wall clock, which somebody may have set back: what is remembered is never of now.
            return max(1.0, self._clock.now() - self._remembered.captured_at)
        return 0.0 if self._is_live else max(0.0, self._clock.monotonic() - self._in_step_at)

    @property
    def seen_at(self) -> float:
        """Tell when that was, in epoch seconds."""
        return self._clock.now() - self.age_s

    def entity(self, entity_id: str) -> Entity | None:
        return self.entities.get(entity_id)

    def sorted_ids(self) -> Sequence[str]:
        if self._sorted is None:
            self._sorted = sorted(self.entities)
        return self._sorted

    def area_of(self, entity_id: str) -> Area | None:
        """Its own area, else its device's; None also where that area is no more."""
        area_id = self._where().area_of(entity_id)
        return self.areas[area_id] if area_id is not None else None

    def find_area(self, text: str) -> Area | None:
        """By id, name or alias, in whichever case."""
        return self._where().find_area(text)

    def in_area(self, area_id: str) -> Sequence[str]:
        """Also those that are there because their device is."""
        return self._where().in_area(area_id)

    def of_device(self, device_id: str) -> Sequence[str]:
        return self._where().of_device(device_id)

    def with_label(self, label_id: str) -> Sequence[str]:
        """Those that carry it themselves, or whose device or area does."""
        return self._where().with_label(label_id)

    def on_floor(self, floor_id: str) -> Sequence[str]:
        return self._where().on_floor(floor_id)

    def of_config_entry(self, config_entry_id: str) -> Sequence[str]:
        return self._where().of_config_entry(config_entry_id)

    def of_integration(self, name: str) -> Sequence[str]:
        """Those that an integration has brought and entered in the registry."""
        return self._where().of_integration(name)

    def knows_area(self, area_id: str) -> bool:
        return area_id in self.areas

    def knows_device(self, device_id: str) -> bool:
        return device_id in self.devices

    def knows_label(self, label_id: str) -> bool:
        return label_id in self.labels or label_id in self._where().labels

    def knows_floor(self, floor_id: str) -> bool:
        return floor_id in self.floors or floor_id in self._where().floors

    def _where(self) -> Places:
        if self._places is None:
            self._places = Places(self.areas, self.devices, self.registry)
        return self._places

    def put(self, entity: Entity) -> None:
        if entity.entity_id not in self.entities:
            if len(self.entities) >= HOME_ENTITIES_MAX:
                return
            self._sorted = None
        self.entities[entity.entity_id] = entity

    def drop(self, entity_id: str) -> None:
        if self.entities.pop(entity_id, None) is not None:
            self._sorted = None

    def replace_entities(self, entities: Iterable[Entity]) -> None:
        """These and no others."""
        self.entities = {}
        self._sorted = None
        for entity in entities:
            self.put(entity)

    def learn(
        self,
        *,
        areas: Iterable[Area] | None = None,
        devices: Iterable[Device] | None = None,
        registry: Iterable[RegistryEntry] | None = None,
        services: Iterable[ServiceInfo] | None = None,
        labels: Mapping[str, str] | None = None,
        floors: Mapping[str, str] | None = None,
    ) -> None:
        """Replace each registry that is given, whole."""
        self._knows_places |= None not in (areas, devices, registry)
        if areas is not None:
            self.areas = {area.area_id: area for area in areas}
        if devices is not None:
            self.devices = {device.device_id: device for device in devices}
        if registry is not None:
            self.registry = {entry.entity_id: entry for entry in registry}
        if services is not None:
            self.services = {(known.domain, known.service): known for known in services}
        if labels is not None:
            self.labels = labels
        if floors is not None:
            self.floors = floors
        self._places = None

    def settle(self, is_settled: bool) -> None:
        """Note whether what the registries say is what the server has; if not, they will be read again."""
        if is_settled:
            self._settled.set()
        else:
            self._settled.clear()

    def remember(self, remembered: Remembered) -> None:
        """Take what an earlier gate saw, until the server is read; not where it has been."""
        if self._is_ready:
            return
        known = self.entities
        self.replace_entities(remembered.entities)
        for entity in known.values():
            self.put(entity)
        self._remembered = remembered

    def in_step(self, *, live: bool) -> None:
        """It is what the server has now; `live`: and stays so."""
        self._is_ready, self._is_live, self._remembered = True, live, None
        self._in_step_at = self._clock.monotonic()

    def out_of_step(self) -> None:
        """The connection feeds it no longer."""
        if self._is_live:
            self._in_step_at = self._clock.monotonic()
        self._is_live = False
