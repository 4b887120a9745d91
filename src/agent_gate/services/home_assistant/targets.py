"""Entities that a call of a service can reach, over what is known of the home."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent_gate.model.bounds import SIGNATURES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.encoding import ArgumentError
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.integrations import aliases_of_integration
from agent_gate.services.home_assistant.selectors import fields_of
from agent_gate.services.home_assistant.unknown import places_unknown, shown, unknown_entity
from agent_gate.services.home_assistant.unknown_targets import unknown_place, unknown_service
from agent_gate.tools.home_assistant.fields import ALL, CONFIG_ENTRY, DOMAIN, GLOB, INDIRECT_TARGETS
from agent_gate.tools.home_assistant.signatures import (
    Named,
    ServiceCall,
    aliases_of_service,
    is_entity_domain,
    named_in,
)

TARGET_KEYS = frozenset({"entity_id", *INDIRECT_TARGETS})

_ENTITY_ID = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")
_MADE_OF = "entity_id"
"""The attribute by which groups of every kind and scenes tell whom they consist of."""
_MEMBERS = (_MADE_OF, "group_members", "active_child")
"""Besides, those by which players tell whom they pass a call on to."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A call of a service with every entity that it can touch."""

    call: ServiceCall
    signatures: tuple[str, ...]
    is_expanded: bool
    """True where what it reaches is told by what the home holds, and not by the names alone."""
    names_places: bool = False
    """True where that rests on the registries."""
    aliases: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        return f"{self.call.domain}.{self.call.service}"

    @property
    def targets(self) -> list[str]:
        return sorted(self.call.entities)


def reach_of(home: Home, args: Mapping[str, Json]) -> Reach:
    """Find what `ha_call_service` with these arguments can touch; ToolError 2002 where it names what is not there."""
    try:
        _refuse_other_keys(args.get("target"))
        named = named_at(home, args)
        if (named.domain, named.service) not in home.services:
            raise unknown_service(home, named.domain, named.service)
        call = ServiceCall(named.domain, named.service, tuple(_reached(home, named)))
        besides = aliases_of_integration(home, call)
        return Reach(
            call,
            call.signatures,
            _is_expanded(home, named) or bool(besides),
            bool(named.places or besides),
            (*aliases_of_service(named), *besides),
        )
    except ArgumentError as error:
        raise ToolError(str(error), code=2002, suggestion=error.suggestion) from None


def named_at(home: Home, args: Mapping[str, Json]) -> Named:
    """Find what the arguments name, by the fields that this home's services have."""
    service = home.services.get((str(args.get("domain")), str(args.get("service"))))
    return named_in(args, fields_of(service) if service else None, home.entities.__contains__)


def _refuse_other_keys(target: Json) -> None:
    if isinstance(target, Mapping):
        for name in sorted(target.keys() - TARGET_KEYS):
            raise ArgumentError(f"`target` has no field `{shown(name)}`", f"use {', '.join(sorted(TARGET_KEYS))}")


def _is_expanded(home: Home, named: Named) -> bool:
    """Also where the call names everything that is known to be behind a place or a group: there may be more by now."""
    found = (home.entity(entity_id) for entity_id in named.entities)
    return bool(named.places) or ALL in named.entities or any(any(members(entity)) for entity in found if entity)


def _reached(home: Home, named: Named) -> Iterable[str]:
    """Without a target nothing is reached; a target that reaches nothing is a mistake."""
    found = _Found(home)
    for entity_id in named.entities:
        if entity_id == ALL:
            found.add_all(_all_for(named.domain, home.sorted_ids()))
        elif entity_id in named.sure and entity_id not in home.entities:
            raise unknown_entity(home, entity_id)
        elif entity_id in home.entities or entity_id in named.made or not home.is_live:
            # A text that looks like an id and is none reaches nothing; that is known only while the home is.
            found.add(entity_id)
    for kind, place_id in named.places:
        here = (entity_id for entity_id in _in_place(home, kind, place_id) if entity_id in home.entities)
        found.add_all(_acted_on(named.domain, here))
    # Whatever else a config entry stands for: it may have brought no entities.
    if not found.ids and (named.sure or any(kind != CONFIG_ENTRY for kind, _ in named.places)):
        raise _reaches_nothing(named)
    found.add_members()
    return found.ids


class _Found:
    """Entities in the order in which they were found, never more than can be judged."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.ids: dict[str, None] = {}

    def add(self, entity_id: str) -> None:
        self.ids[entity_id] = None
        if len(self.ids) > SIGNATURES_MAX:
            raise ArgumentError(f"the call reaches more than {SIGNATURES_MAX} targets", "split it into several calls")

    def add_all(self, entity_ids: Iterable[str]) -> None:
        for entity_id in entity_ids:
            self.add(entity_id)

    def add_members(self) -> None:
        """Members of members too; each entity is looked at once, so that a group may well hold itself."""
        waiting = list(self.ids)
        while waiting:
            entity = self._home.entity(waiting.pop())
            for member in members(entity) if entity else ():
                if member not in self.ids:
                    self.add(member)
                    waiting.append(member)


def members(entity: Entity) -> Iterator[str]:
    """Whom an entity passes a call on to: of a group, a scene, or players that play together."""
    for name in _MEMBERS:
        yield from _ids_under(entity, name)


def is_made_of_others(entity: Entity) -> bool:
    """Tell whether its state follows from theirs; players that play together have states of their own."""
    return any(_ids_under(entity, _MADE_OF))


def _ids_under(entity: Entity, name: str) -> Iterator[str]:
    value = entity.attributes.get(name)
    for member in [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ():
        if isinstance(member, str) and _ENTITY_ID.fullmatch(member):
            yield member


def _acted_on(domain: str, entity_ids: Iterable[str]) -> Iterable[str]:
    """Services of an entity domain act on their own kind; others, such as `homeassistant`, on whatever they meet."""
    if not is_entity_domain(domain):
        return entity_ids
    return [entity_id for entity_id in entity_ids if entity_id.startswith(f"{domain}.")]


def _all_for(domain: str, entity_ids: Sequence[str]) -> Iterable[str]:
    """Speech comes out of players, whichever field says `all`."""
    players = _acted_on("media_player", entity_ids) if domain == "tts" else ()
    return (*_acted_on(domain, entity_ids), *players)


def _in_place(home: Home, kind: str, place_id: str) -> Iterable[str]:
    if kind == DOMAIN:
        return [entity_id for entity_id in home.sorted_ids() if entity_id.partition(".")[0] == place_id]
    if kind == GLOB:
        return [entity_id for entity_id in home.sorted_ids() if fnmatchcase(entity_id, place_id)]
    if not home.knows_places:
        raise places_unknown()
    if kind == CONFIG_ENTRY:
        return home.of_config_entry(place_id)
    knows, entities = {
        "area_id": (home.knows_area, home.in_area),
        "device_id": (home.knows_device, home.of_device),
        "floor_id": (home.knows_floor, home.on_floor),
        "label_id": (home.knows_label, home.with_label),
    }[kind]
    if not knows(place_id):
        raise unknown_place(home, kind, place_id)
    return entities(place_id)


def _reaches_nothing(named: Named) -> ToolError:
    where = [f"{kind} `{shown(place_id)}`" for kind, place_id in named.places] or [f"`{ALL}`"]
    return ToolError(
        f"`{named.domain}.{named.service}` reaches nothing by {', '.join(where[:3])}",
        code=2002,
        suggestion="see `ha_list_entities` for what is there",
    )
