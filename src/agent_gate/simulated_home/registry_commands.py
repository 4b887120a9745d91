"""Commands that list and change the registries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from agent_gate.simulated_home.command import Command, Message, Refusal
from agent_gate.simulated_home.registry import Area
from agent_gate.simulated_home.session import Session


def _list(registry: str, session: Session, message: Message) -> None:
    values = getattr(session.home.registries, registry).values()
    session.result(message["id"], [one.as_json() for one in values])


def _plain(name: str) -> str:
    return name.casefold().replace(" ", "")


def _create_area(session: Session, message: Message) -> None:
    areas, name = session.home.registries.areas, message["name"]
    plain = _plain(name)
    if any(_plain(area.name) == plain for area in areas.values()):
        raise Refusal("invalid_info", f"The name {name} ({plain}) is already in use")
    area = Area(re.sub(r"\W+", "_", name.lower()), name, tuple(message.get("aliases", ())))
    session.home.put_area(area)
    session.result(message["id"], area.as_json())


def _update_area(session: Session, message: Message) -> None:
    """A new name leaves the id as it is."""
    area = session.home.registries.areas.get(message["area_id"])
    if area is None:
        raise Refusal("invalid_info", "Area ID doesn't exist")
    changed = replace(area, name=message.get("name", area.name), aliases=tuple(message.get("aliases", area.aliases)))
    session.home.put_area(changed)
    session.result(message["id"], changed.as_json())


def _delete_area(session: Session, message: Message) -> None:
    if message["area_id"] not in session.home.registries.areas:
        raise Refusal("invalid_info", "Area ID doesn't exist")
    session.home.remove_area(message["area_id"])
    session.send({"id": message["id"], "type": "result", "success": True, "result": "success"})


def _update_entry(session: Session, message: Message) -> None:
    """An area that does not exist is taken all the same."""
    home, entity_id = session.home, message["entity_id"]
    entry = home.registries.entries.get(entity_id)
    if entry is None:
        raise Refusal("not_found", "Entity not found")
    if "area_id" in message or "name" in message:
        home.put_entry(
            replace(entry, area_id=message.get("area_id", entry.area_id), name=message.get("name", entry.name))
        )
    new_id: str = message.get("new_entity_id") or entity_id
    if new_id != entity_id:
        home.rename(entity_id, new_id)
    session.result(message["id"], {"entity_entry": home.registries.entries[new_id].as_json()})


def _update_device(session: Session, message: Message) -> None:
    device = session.home.registries.devices.get(message["device_id"])
    if device is None:
        raise Refusal("unknown_error", "Unknown error")
    changed = replace(device, area_id=message.get("area_id", device.area_id))
    session.home.put_device(changed)
    session.result(message["id"], changed.as_json())


REGISTRY_COMMANDS: Mapping[str, Command] = {
    "config/area_registry/list": Command(partial(_list, "areas")),
    "config/device_registry/list": Command(partial(_list, "devices")),
    "config/entity_registry/list": Command(partial(_list, "entries")),
    "config/area_registry/create": Command(_create_area, {"name": str}, {"aliases": list}, is_for_admins=True),
    "config/area_registry/update": Command(
        _update_area, {"area_id": str}, {"name": str, "aliases": list}, is_for_admins=True
    ),
    "config/area_registry/delete": Command(_delete_area, {"area_id": str}, is_for_admins=True),
    "config/entity_registry/update": Command(
        _update_entry,
        {"entity_id": str},
        {"area_id": str | None, "name": str | None, "new_entity_id": str},
        is_for_admins=True,
    ),
    "config/device_registry/update": Command(
        _update_device, {"device_id": str}, {"area_id": str | None}, is_for_admins=True
    ),
}
