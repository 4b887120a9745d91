"""Contents of a simulated home: states and registries, and the events of their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from agent_gate.model.tool import Json
from agent_gate.simulated_home.bus import Bus
from agent_gate.simulated_home.recorder import Recorder
from agent_gate.simulated_home.registry import Area, Device, Registries, RegistryEntry
from agent_gate.simulated_home.states import ON, Context, State, ulid
from agent_gate.simulated_home.users import User


class Household:
    def __init__(
        self,
        entities: Mapping[str, tuple[str, Mapping[str, Json]]],
        areas: Iterable[Area],
        devices: Iterable[Device],
        entries: Iterable[RegistryEntry],
        now: Callable[[], float],
    ) -> None:
        self.now, self.bus = now, Bus(now)
        self.states: dict[str, State] = {}
        self.registries = Registries(areas, devices, entries)
        self.recorder = Recorder(self)
        self._lasting: dict[str, None] = {}
        """Things that a restart brings back, in order."""
        for entity_id, (state, attributes) in entities.items():
            self.set_state(entity_id, state, attributes)

    def context(self, user: User | None = None) -> Context:
        return Context(ulid(self.now()), user.id if user else None)

    def set_state(self, entity_id: str, state: str, attributes: Mapping[str, Json] | None = None) -> None:
        """As a device reports it; without `attributes` those that it has are kept."""
        before = self.states.get(entity_id)
        kept = before.attributes if before and attributes is None else attributes or {}
        self._lasting[entity_id] = None
        self.write(entity_id, state, kept, self.context())

    def remove(self, entity_id: str) -> None:
        before = self.states.pop(entity_id, None)
        self._lasting.pop(entity_id, None)
        if before is not None:
            data = {"entity_id": entity_id, "old_state": before.as_json(), "new_state": None}
            self.bus.fire("state_changed", data, self.context())

    def write(self, entity_id: str, state: str, attributes: Mapping[str, Json], context: Context) -> None:
        """Write a state; one that is the same as before is not written, and nobody is told of it."""
        before = self.states.get(entity_id)
        if before and before.state == state and before.attributes == attributes:
            return
        now = self.now()
        changed_at = before.changed_at if before and before.state == state else now
        after = State(entity_id, state, dict(attributes), changed_at, now, context)
        self.states[entity_id] = after
        self.recorder.keep(after)
        data = {"entity_id": entity_id, "old_state": before.as_json() if before else None, "new_state": after.as_json()}
        self.bus.fire("state_changed", data, context, new_state=after)
        for group in [one for one in self.states.values() if one.domain == "group"]:
            if entity_id in group.attributes["entity_id"]:
                self.write(group.entity_id, self._together(group), group.attributes, context)

    def _together(self, group: State) -> str:
        """A group is on when any of its members is."""
        found = (self.states.get(member) for member in group.attributes["entity_id"])
        return "on" if any(state and state.state in ON for state in found) else "off"

    def rename(self, entity_id: str, new_id: str) -> None:
        """In the registry: the old entity goes, the new one comes."""
        entry, state = self.registries.entries.pop(entity_id), self.states.get(entity_id)
        self.registries.entries[new_id] = replace(entry, entity_id=new_id)
        data = {
            "action": "update",
            "entity_id": new_id,
            "changes": {"entity_id": entity_id},
            "old_entity_id": entity_id,
        }
        self.bus.fire("entity_registry_updated", data, self.context())
        if state is not None:
            self.remove(entity_id)
            self.set_state(new_id, state.state, state.attributes)

    def put_area(self, area: Area) -> None:
        action = "update" if area.area_id in self.registries.areas else "create"
        self.registries.areas[area.area_id] = area
        self.bus.fire("area_registry_updated", {"action": action, "area_id": area.area_id}, self.context())

    def remove_area(self, area_id: str) -> None:
        del self.registries.areas[area_id]
        self.bus.fire("area_registry_updated", {"action": "remove", "area_id": area_id}, self.context())

    def put_device(self, device: Device) -> None:
        """Its entities get no event of their own."""
        before = self.registries.devices.get(device.id)
        self.registries.devices[device.id] = device
        data: dict[str, Json] = {"action": "update" if before else "create", "device_id": device.id}
        if before:
            data["changes"] = {"area_id": before.area_id}
        self.bus.fire("device_registry_updated", data, self.context())

    def put_entry(self, entry: RegistryEntry) -> None:
        before = self.registries.entries.get(entry.entity_id)
        self.registries.entries[entry.entity_id] = entry
        data: dict[str, Json] = {"action": "update" if before else "create", "entity_id": entry.entity_id}
        if before:
            data["changes"] = {"area_id": before.area_id, "device_id": before.device_id}
        self.bus.fire("entity_registry_updated", data, self.context())

    def burst(self, count: int, *, entities: int = 100, prefix: str = "sensor.burst_") -> None:
        """So many changes at once, before any connection can send one of them."""
        context = self.context()
        for number in range(count):
            self.burst_one(number, entities, prefix, context)

    def burst_one(self, number: int, entities: int, prefix: str, context: Context) -> None:
        of = number % entities
        attributes = {"friendly_name": f"Burst {of}", "unit_of_measurement": "W", "n": number}
        self.write(f"{prefix}{of}", str(number), attributes, context)

    def empty(self) -> list[State]:
        """Before a restart: all that will come back, as it was."""
        kept = [self.states[entity_id] for entity_id in self._lasting if entity_id in self.states]
        self.states.clear()
        return kept
