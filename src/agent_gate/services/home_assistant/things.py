"""Parts of a home, as values: entities, areas, devices, entries of the registry, services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class Entity:
    """One state of one entity."""

    entity_id: str
    state: str
    attributes: Mapping[str, Json]
    last_changed: str
    last_updated: str
    context_id: str = ""

    @property
    def domain(self) -> str:
        return self.entity_id.partition(".")[0]

    @property
    def name(self) -> str:
        """The name that people call it by; its id where nobody gave it one."""
        name = self.attributes.get("friendly_name")
        return name if isinstance(name, str) and name else self.entity_id


@dataclass(frozen=True, slots=True)
class Remembered:
    """The home as an earlier gate last saw it."""

    entities: tuple[Entity, ...]
    """Nobody kept when each had last changed, nor its context."""
    captured_at: float
    """Epoch seconds."""
    without_attributes: frozenset[str] = frozenset()
    """Those that had too many attributes to keep."""


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The user whose token the gate has."""

    user_id: str
    name: str
    is_admin: bool

    @property
    def told(self) -> str:
        """Say what it may do, as far as the server says."""
        if self.is_admin:
            return f"the token is of `{self.name}`, an administrator, and may do everything"
        return (
            f"the token is of `{self.name}`, who is no administrator: templates, events and what changes the server are"
            " refused, and whatever else that user may not do"
        )


@dataclass(frozen=True, slots=True)
class Area:
    area_id: str
    name: str
    aliases: tuple[str, ...] = ()
    floor_id: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    device_id: str
    name: str = ""
    area_id: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """The registry's word on an entity; many entities have no entry, and a disabled one has no state."""

    entity_id: str
    area_id: str | None = None
    """Its own, which goes before its device's; it may name an area that is no more."""
    device_id: str | None = None
    platform: str = ""
    labels: tuple[str, ...] = ()
    category: str | None = None
    """`config` or `diagnostic`: servers leave such entities, and hidden ones, out of areas that are targets."""
    is_hidden: bool = False
    is_disabled: bool = False
    config_entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    domain: str
    service: str
    name: str
    description: str
    fields: Mapping[str, Json]
    target: Mapping[str, Json] | None
    """Targets that it may be aimed at; None where it takes none."""
    response: str = "none"
    """Data in its answer: `none`, `optional`, or `only` where it must be asked for it."""
