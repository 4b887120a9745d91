"""Readers of what a server sends: unknown keys are passed over, and no key is counted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agent_gate.model.bounds import HOME_NAME_CHARS_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.services.home_assistant.things import Area, Device, Entity, RegistryEntry, ServiceInfo, TokenUser


def entity_of(row: Json) -> Entity | None:
    """None where it is no state."""
    if not isinstance(row, dict) or not (entity_id := _text(row, "entity_id")):
        return None
    attributes, context = row.get("attributes"), row.get("context")
    return Entity(
        entity_id,
        str(row.get("state", "")),
        _without_tokens(attributes) if isinstance(attributes, dict) else {},
        _text(row, "last_changed"),
        _text(row, "last_updated"),
        _text(context, "id") if isinstance(context, dict) else "",
    )


_PICTURES = ("entity_picture", "entity_picture_local")
_WITH_TOKENS = frozenset({"access_token", *_PICTURES})


def _without_tokens(attributes: dict[str, Json]) -> dict[str, Json]:
    """Cameras and players tell by which token their picture is to be had by anybody; agents and ledgers need none."""
    if _WITH_TOKENS.isdisjoint(attributes):
        return attributes
    kept = {name: value for name, value in attributes.items() if name != "access_token"}
    for name in _PICTURES:
        if isinstance(picture := kept.get(name), str):
            kept[name] = picture.partition("?")[0]
    return kept


def entities_of(rows: Json) -> list[Entity]:
    return [entity for row in _list(rows) if (entity := entity_of(row)) is not None]


def areas_of(rows: Json) -> list[Area]:
    return [
        Area(
            area_id, _text(row, "name") or area_id, _texts(row, "aliases"), _id(row, "floor_id"), _texts(row, "labels")
        )
        for row in _dicts(rows)
        if (area_id := _text(row, "area_id"))
    ]


def devices_of(rows: Json) -> list[Device]:
    return [
        Device(device_id, _text(row, "name_by_user") or _text(row, "name"), _id(row, "area_id"), _texts(row, "labels"))
        for row in _dicts(rows)
        if (device_id := _text(row, "id"))
    ]


def entries_of(rows: Json) -> list[RegistryEntry]:
    return [
        RegistryEntry(
            entity_id,
            _id(row, "area_id"),
            _id(row, "device_id"),
            _text(row, "platform"),
            _texts(row, "labels"),
            _id(row, "entity_category"),
            bool(row.get("hidden_by")),
            bool(row.get("disabled_by")),
            _id(row, "config_entry_id"),
        )
        for row in _dicts(rows)
        if (entity_id := _text(row, "entity_id"))
    ]


def user_of(row: Json) -> TokenUser | None:
    """None where nobody is named."""
    if not isinstance(row, dict) or not (user_id := _text(row, "id")):
        return None
    return TokenUser(user_id, visible(_text(row, "name") or user_id, HOME_NAME_CHARS_MAX), row.get("is_admin") is True)


def names_of(rows: Json, key: str) -> dict[str, str]:
    """Labels and floors: names by the id under this key."""
    return {_text(row, key): _text(row, "name") for row in _dicts(rows) if _text(row, key)}


def services_of(answer: Json) -> list[ServiceInfo]:
    """The WebSocket gives an object by domain, REST a list of domains."""
    if isinstance(answer, list):
        answer = {_text(row, "domain"): row.get("services") for row in _dicts(answer)}
    if not isinstance(answer, dict):
        return []
    return [
        _service_of(domain, service, told)
        for domain, services in answer.items()
        if isinstance(services, dict)
        for service, told in services.items()
        if isinstance(told, dict)
    ]


def _service_of(domain: str, service: str, told: Mapping[str, Json]) -> ServiceInfo:
    target, response, fields = told.get("target"), told.get("response"), told.get("fields")
    answers = "none"
    if isinstance(response, dict):
        answers = "optional" if response.get("optional", True) else "only"
    return ServiceInfo(
        domain,
        service,
        _text(told, "name"),
        _text(told, "description"),
        fields if isinstance(fields, dict) else {},
        target if isinstance(target, dict) else None,
        answers,
    )


def _list(rows: Json) -> list[Json]:
    return rows if isinstance(rows, list) else []


def _dicts(rows: Json) -> Iterator[Mapping[str, Json]]:
    return (row for row in _list(rows) if isinstance(row, dict))


def _text(row: Mapping[str, Json], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _id(row: Mapping[str, Json], key: str) -> str | None:
    return _text(row, key) or None


def _texts(row: Mapping[str, Json], key: str) -> tuple[str, ...]:
    values = row.get(key)
    return tuple(value for value in _iterable(values) if isinstance(value, str))


def _iterable(values: Json) -> Iterable[Json]:
    return values if isinstance(values, list) else ()
