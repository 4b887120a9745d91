"""Answers that the copy of the home gives at once: states, entities, areas and services."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from agent_gate.model.bounds import HOME_SERVICES_SHOWN_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.home import Entity, Home, ServiceInfo
from agent_gate.services.home_assistant.unknown import (
    places_unknown,
    unknown_area,
    unknown_domain,
    unknown_entity,
    unknown_services,
)

Args = Mapping[str, Json]
IsWithheld: TypeAlias = Callable[[str], bool]
"""Of the alias by which rules know that an entity is read."""
READ_ALIAS = "ha_get_state("


def read_alias(entity_id: str) -> str:
    return f"{READ_ALIAS}{entity_id})"


class Listing:
    """Answers from memory; none of them waits, or asks the server."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._areas_by: tuple[object, ...] = ()
        self._area_names: dict[str, str] | None = None

    def state(self, args: Args) -> Json:
        home, entity_id = self._known(), args["entity_id"]
        entity = home.entities.get(entity_id)
        if entity is None:
            raise self._missing(unknown_entity(home, entity_id))
        return {**self._whole(entity, self._names()), **_freshness(home)}

    def states(self, args: Args, is_withheld: IsWithheld | None = None) -> Json:
        home, names = self._known(), self._names()
        page = _page(home.sorted_ids(), args, is_withheld)
        rows = [self._whole(home.entities[entity_id], names) for entity_id in page.ids]
        return {"entities": rows, **page.told(), **_freshness(home)}

    def entities(self, args: Args, is_withheld: IsWithheld | None = None) -> Json:
        home, names = self._known(), self._names()
        page = _page(self._chosen(args), args, is_withheld)
        entities = home.entities
        rows = [
            {
                "entity_id": entity_id,
                "state": (entity := entities[entity_id]).state,
                "friendly_name": entity.name,
                **_area(entity_id, names),
                "domain": entity_id.partition(".")[0],
                "last_updated": entity.last_updated,
            }
            for entity_id in page.ids
        ]
        return {"entities": rows, **page.told(), **_freshness(home)}

    def areas(self, _: Args) -> Json:
        home = self._ready()
        if not home.knows_places:
            raise places_unknown()
        rows = [
            {"area_id": area.area_id, "name": area.name, "aliases": list(area.aliases)}
            for area in sorted(home.areas.values(), key=lambda area: (area.name.casefold(), area.area_id))
        ]
        return {"areas": rows, "count": len(rows), **_freshness(home)}

    def services(self, args: Args) -> Json:
        home, domain = self._ready(), args.get("domain")
        known = [home.services[key] for key in sorted(home.services) if domain in (None, key[0])]
        if not known and domain is not None:
            raise unknown_services(home, domain)
        rows = [_service(each, with_fields=domain is not None) for each in known[:HOME_SERVICES_SHOWN_MAX]]
        return {"services": rows, "count": len(rows), "cut_off": len(known) > len(rows), **_freshness(home)}

    def _chosen(self, args: Args) -> Sequence[str]:
        """Those that the filters leave, sorted; a filter that names nothing of the home is a mistake."""
        home, ids = self._home, self._home.sorted_ids()
        domain, area_named = args.get("domain"), args.get("area")
        if domain is not None:
            # What begins with `light.` stands together in what is sorted, and ends before `light/`.
            ids = ids[bisect_left(ids, f"{domain}.") : bisect_left(ids, f"{domain}/")]
            if not ids:
                raise self._missing(unknown_domain(home, domain))
        if area_named is None:
            return ids
        if not home.knows_places:
            raise places_unknown()
        area = home.find_area(area_named)
        if area is None:
            raise unknown_area(home, area_named)
        there = set(home.in_area(area.area_id))
        return [entity_id for entity_id in ids if entity_id in there]

    def _names(self) -> Mapping[str, str] | None:
        """Names of areas by entity, made anew where a registry was; None while nobody knows who is where."""
        home = self._home
        by = (home.areas, home.devices, home.registry)
        if len(self._areas_by) != len(by) or any(a is not b for a, b in zip(by, self._areas_by, strict=True)):
            found = ((entity_id, home.area_of(entity_id)) for entity_id in home.registry)
            names = {entity_id: area.name for entity_id, area in found if area}
            self._area_names = names if home.knows_places else None
            self._areas_by = by
        return self._area_names

    def _whole(self, entity: Entity, area_names: Mapping[str, str] | None) -> dict[str, Json]:
        """Write an entity out; what nobody kept of a home that is only remembered is null."""
        remembered = self._home.remembered
        is_bare = remembered is not None and entity.entity_id in remembered.without_attributes
        return {
            "entity_id": entity.entity_id,
            "state": entity.state,
            "attributes": None if is_bare else entity.attributes,
            "last_changed": entity.last_changed or None,
            "last_updated": entity.last_updated,
            **_area(entity.entity_id, area_names),
        }

    def _missing(self, error: ToolError) -> ToolError:
        """Note that what is not among what is remembered may have come since."""
        if self._home.is_ready:
            return error
        return ToolError(
            f"{error.problem.detail} as it was last seen, and Home Assistant is out of reach",
            code=2006,
            suggestion="try again in a moment",
        )

    def _known(self) -> Home:
        """Read since the start, or remembered from before."""
        return self._home if self._home.remembered is not None else self._ready()

    def _ready(self) -> Home:
        if not self._home.is_ready:
            raise ToolError(
                "the home is not known yet: Home Assistant has not answered since the gate was started",
                code=2006,
                suggestion="try again in a moment; if it lasts, whoever runs the gate finds the reason at /readyz",
            )
        return self._home


class _Page(NamedTuple):
    """Some of a list, with how many there are besides."""

    ids: Sequence[str]
    left_out: int
    """That come after these."""
    withheld: int
    """That rules keep from the caller, wherever they would stand."""

    def told(self) -> dict[str, Json]:
        goes_on = {"next_cursor": self.ids[-1]} if self.left_out and self.ids else {}
        return {"count": len(self.ids), "left_out": self.left_out, **goes_on, "withheld": self.withheld}


def _page(ids: Sequence[str], args: Args, is_withheld: IsWithheld | None) -> _Page:
    """Those behind the cursor, which is an id: entities that come or go meanwhile neither repeat nor hide others."""
    seen = ids
    if is_withheld is not None:
        seen = [entity_id for entity_id in ids if not is_withheld(read_alias(entity_id))]
    cursor, limit = args.get("cursor"), args.get("limit")
    begin = 0 if cursor is None else bisect_right(seen, cursor)
    page = seen[begin:] if limit is None else seen[begin : begin + limit]
    return _Page(page, len(seen) - begin - len(page), len(ids) - len(seen))


def _freshness(home: Home) -> dict[str, Json]:
    """Whole seconds, rounded up: what is behind is never told to be in step."""
    told: dict[str, Json] = {"live": home.is_live, "age_s": math.ceil(home.age_s)}
    if home.remembered is None:
        return told
    return {**told, "stale": True, "captured_at": iso(home.remembered.captured_at)}


def _area(entity_id: str, names: Mapping[str, str] | None) -> dict[str, Json]:
    """Left out where it is not known: null says that the entity is in none."""
    return {} if names is None else {"area_name": names.get(entity_id)}


def _service(known: ServiceInfo, *, with_fields: bool) -> dict[str, Json]:
    row: dict[str, Json] = {
        "domain": known.domain,
        "service": known.service,
        "name": known.name,
        "description": known.description,
    }
    if with_fields:
        row |= {"fields": known.fields, "target": known.target, "response": known.response}
    return row
