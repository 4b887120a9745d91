"""What config.yaml must mean beyond its shape: who is who, and which fields go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from agent_gate.config.places import Field, field_name, mapping_at, mappings_at, shown
from agent_gate.config.problems import Problems
from agent_gate.model.tool import Json

_PHONES = ("services", "homeassistant", "approvals")
RESERVED_SERVER_NAMES = frozenset({"fs", "http", "shell", "state", "ha", "gate", "agent"})


def check_meaning(value: Json, problems: Problems) -> None:
    """Adds what is wrong besides the shape; a field whose shape is already blamed is passed over."""
    if not isinstance(value, dict):
        return
    if ("agent" in value) == ("agents" in value):
        what = "given besides `agents`; keep one" if "agent" in value else "missing"
        problems.add(("agent",), f"{what}; write `agent: {{token: …}}` for one agent, or a list under `agents`")
    _check_people(value, problems)
    _check_phones(value, problems)
    _check_storage(mapping_at(value, "storage"), problems)
    for name, server in mapping_at(value, "services", "mcp_servers").items():
        _check_server(name, server, problems)
    for place, route in mappings_at(value, "policy_agent", "routes"):
        if isinstance(route.get("chain"), str) and route["chain"] not in mapping_at(value, "chains"):
            problems.add((*place, "chain"), f"there is no chain {shown(route['chain'])} under `chains`")
    for name in mapping_at(value, "projects"):
        _check_state(("projects", name), mapping_at(value, "projects", name), problems)


def _check_people(value: Json, problems: Problems) -> None:
    tokens = [(("agent",), mapping_at(value, "agent")), *mappings_at(value, "agents"), *mappings_at(value, "approvers")]
    _check_unique(_fields(tokens, "token"), "each needs a token of its own", problems)
    _check_unique(_fields(mappings_at(value, "agents"), "id"), "each agent needs an id of its own", problems)
    for key in ("id", "telegram_user_id"):
        _check_unique(_fields(mappings_at(value, "approvers"), key), "each is one person", problems)
    at_home = {phone.get("approver") for _, phone in mappings_at(value, *_PHONES)}
    for place, approver in mappings_at(value, "approvers"):
        if "token" not in approver and "telegram_user_id" not in approver and approver.get("id") not in at_home:
            problems.add(place, "can never answer; give a token, a telegram_user_id, or a phone at home")


def _check_phones(value: Json, problems: Problems) -> None:
    phones = list(mappings_at(value, *_PHONES))
    known = [item.get("id") for _, item in mappings_at(value, "approvers")]
    _check_unique(_fields(phones, "notify"), "each phone is one person's", problems)
    owners: dict[str, str] = {}
    for place, phone in phones:
        approver, user_id = phone.get("approver"), phone.get("user_id")
        if isinstance(approver, str) and approver not in known and not problems.blames((*place, "approver")):
            problems.add((*place, "approver"), f"there is no {shown(approver)} under `approvers`")
        if isinstance(approver, str) and isinstance(user_id, str) and owners.setdefault(user_id, approver) != approver:
            problems.add((*place, "user_id"), f"the same as that of {shown(owners[user_id])}; each is one person")


def _fields(items: Iterable[tuple[Field, Mapping[str, Any]]], key: str) -> Iterator[tuple[Field, str | int]]:
    for place, item in items:
        if isinstance(item.get(key), str | int):
            yield (*place, key), item[key]


def _check_unique(given: Iterable[tuple[Field, str | int]], remedy: str, problems: Problems) -> None:
    first: dict[str | int, Field] = {}
    for place, value in given:
        if value in first and not problems.blames(place):
            problems.add(place, f"the same as {field_name(first[value])}; {remedy}")
        first.setdefault(value, place)


def _check_storage(storage: Mapping[str, Any], problems: Problems) -> None:
    match storage.get("type"):
        case "sqlite":
            needed, other = "path", "url"
        case "postgresql":
            needed, other = "url", "path"
        case _:
            return
    if needed not in storage:
        problems.add(("storage", needed), f"missing; {storage['type']} needs it")
    if other in storage:
        problems.add(("storage", other), f"has no meaning for {storage['type']}; remove it")


def _check_server(name: str, server: Json, problems: Problems) -> None:
    place = ("services", "mcp_servers", name)
    if name in RESERVED_SERVER_NAMES:
        problems.add(place, f"{shown(name)} is a name of the gate's own tools; choose another")
    if not isinstance(server, dict):
        return
    if ("command" in server) == ("url" in server):
        problems.add(place, "needs either `command` or `url`")
    for key in ("headers",) if "command" in server else ("args", "env"):
        if key in server:
            problems.add((*place, key), "has no meaning here; remove it")


def _check_state(place: Field, project: Mapping[str, Any], problems: Problems) -> None:
    schema = project.get("state_schema")
    if not isinstance(schema, dict):
        return
    import jsonschema_rs  # noqa: PLC0415  # 20 ms that callers without files need not pay

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse_remote)
    except (ValueError, jsonschema_rs.ReferencingError):
        problems.add((*place, "state_schema"), "not a JSON Schema, or it refers to another document")
        return
    if not validator.is_valid(project.get("initial_state", {})):
        problems.add((*place, "initial_state"), "does not fit state_schema")


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"no schema is fetched: {uri}")
