"""Errors for services and places that a call names and the home does not have."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from agent_gate.model.bounds import HOME_NAMES_COMPARED_MAX
from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.home import Home
from agent_gate.services.home_assistant.unknown import nearest, shown

_WORDS = {"area_id": "area", "device_id": "device", "floor_id": "floor", "label_id": "label"}


def unknown_service(home: Home, domain: str, service: str) -> ToolError:
    wanted = f"{domain}.{service}"
    detail = f"Home Assistant has no service `{shown(wanted)}`"
    of_domain = [f"{domain}.{name}" for known, name in home.services if known == domain]
    others = [f"{known}.{name}" for known, name in home.services if name == service]
    return _error(detail, nearest(wanted, _some(of_domain or others)), "see `ha_list_services`")


def unknown_place(home: Home, kind: str, place_id: str) -> ToolError:
    """Places are named by their id, as Home Assistant wants it; who gave a name is told the id."""
    detail = f"Home Assistant has no {_WORDS[kind]} with the id `{shown(place_id)}`"
    named = home.find_area(place_id) if kind == "area_id" else None
    if named:
        return _error(detail, [named.area_id], "")
    return _error(detail, nearest(place_id, _some(_ids(home, kind))), _LOOK.get(kind, _LOOK_OTHERWISE))


_LOOK = {"area_id": "see `ha_list_areas`"}
_LOOK_OTHERWISE = "name the entities instead"


def _ids(home: Home, kind: str) -> Iterable[str]:
    match kind:
        case "area_id":
            return home.areas
        case "device_id":
            return home.devices
        case "floor_id":
            return home.floors
        case _:
            return home.labels


def _some(names: Iterable[str]) -> list[str]:
    return list(islice(names, HOME_NAMES_COMPARED_MAX))


def _error(detail: str, near: list[str], otherwise: str) -> ToolError:
    named = " or ".join(f"`{shown(each)}`" for each in near)
    return ToolError(detail, code=2002, suggestion=f"did you mean {named}?" if near else otherwise)
