"""Reading the home's registries and services over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.home import Home
from agent_gate.services.home_assistant.link import Link
from agent_gate.services.home_assistant.reading import areas_of, devices_of, entries_of, names_of, services_of
from agent_gate.services.home_assistant.things import ServiceInfo

CHANGED_BY: Mapping[str, str] = {
    "area_registry_updated": "areas",
    "device_registry_updated": "devices",
    "entity_registry_updated": "registry",
    "floor_registry_updated": "floors",
    "label_registry_updated": "labels",
    "service_registered": "services",
    "service_removed": "services",
}
"""Parts of the home that are to be read again, by event."""
PARTS = frozenset(CHANGED_BY.values())
PLACES = PARTS - {"services"}
"""Those by which it is known who is where."""

_LISTS: Mapping[str, tuple[str, Callable[[Json], Any]]] = {
    "areas": ("config/area_registry/list", areas_of),
    "devices": ("config/device_registry/list", devices_of),
    "registry": ("config/entity_registry/list", entries_of),
    "floors": ("config/floor_registry/list", lambda rows: names_of(rows, "floor_id")),
    "labels": ("config/label_registry/list", lambda rows: names_of(rows, "label_id")),
}
_OPTIONAL = frozenset({"floors", "labels"})
"""Of newer servers only; nobody's place depends on them."""


async def read_parts(link: Link, home: Home, parts: Collection[str]) -> None:
    """Refused where a part cannot be read that judgement needs."""
    lists = [part for part in _LISTS if part in parts]
    found = await asyncio.gather(*(_read(link, part) for part in lists))
    services = await _services(link, home) if "services" in parts else None
    known = {part: value for part, value in zip(lists, found, strict=True) if value is not None}
    home.learn(**known, services=services)


async def _read(link: Link, part: str) -> Any:
    command, read = _LISTS[part]
    try:
        return read(await link.command(command))
    except Refused:
        if part in _OPTIONAL:
            return None
        raise


async def _services(link: Link, home: Home) -> list[ServiceInfo]:
    services = services_of(await link.command("get_services"))
    if all(known.description for known in services):
        return services
    texts = await _translations(link)
    return [_described(known, home, texts) for known in services]


async def _translations(link: Link) -> Mapping[str, Json]:
    """Newer servers keep names and descriptions apart from the services."""
    try:
        answer = await link.command("frontend/get_translations", language="en", category="services")
    except Refused:
        return {}
    resources = answer.get("resources") if isinstance(answer, dict) else None
    return resources if isinstance(resources, dict) else {}


def _described(known: ServiceInfo, home: Home, texts: Mapping[str, Json]) -> ServiceInfo:
    key = f"component.{known.domain}.services.{known.service}"
    script = home.entity(f"script.{known.service}") if known.domain == "script" else None
    return replace(
        known,
        name=known.name or str(texts.get(f"{key}.name") or (script.name if script else "")),
        description=known.description or str(texts.get(f"{key}.description") or ""),
    )
