"""Checks of what config.yaml means beyond its shape: who is who, and which fields go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from agent_gate.config.declaration import declared_fields
from agent_gate.config.places import Field, field_name, mapping_at, mappings_at, shown
from agent_gate.config.problems import Problems
from agent_gate.config.settings import MessengerConfig
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.tool import Json

OWN_CHAINS = ("api", "outbound")
"""Those that the gate itself sends requests through."""
_PHONES = ("services", "homeassistant", "approvals")


_NOT_HERE: tuple[tuple[Field, str], ...] = (
    (("anchor",), "copy `<ledger>.anchor` elsewhere by other means"),
    (("services", "mcp_servers"), "start the servers beside the gate"),
)
"""Fields of later releases, and what to do until then."""


def refuse_what_is_not_here(value: Json, problems: Problems) -> None:
    """Adds sections that would have no effect, and takes them out: nothing else about them needs to be told."""
    for place, instead in _NOT_HERE:
        around = mapping_at(value, *place[:-1])
        if place[-1] in around:
            del around[str(place[-1])]
            problems.add(place, f"not in this release, where it would have no effect; remove it, and {instead}")
    if mapping_at(value, "storage").get("type") == "postgresql":
        del value["storage"]
        problems.add(("storage", "type"), "`postgresql` is not in this release; write `type: sqlite` and a path")


def check_meaning(value: Json, problems: Problems, *, for_agents: bool = True) -> None:
    """Adds what is wrong besides the shape; a field whose shape is already blamed is passed over."""
    if not isinstance(value, dict):
        return
    named = sum(key in value for key in ("agent", "agents"))
    if named == 2 or (named == 0 and for_agents):
        what = "given besides `agents`; keep one" if named else "missing"
        problems.add(("agent",), f"{what}; write `agent: {{token: …}}` for one agent, or a list under `agents`")
    _check_messengers(value, problems)
    _check_people(value, problems)
    _check_phones(value, problems)
    _check_chains(value, problems)
    for name in mapping_at(value, "projects"):
        _check_state(("projects", name), mapping_at(value, "projects", name), problems)


_MESSENGERS = {one.name: one.setting.remedy for one in declared_fields(MessengerConfig) if one.name != "type"}
"""The sections of a messenger, by its type, and what to do where one is missing."""


def _messengers(value: Json) -> list[tuple[Field, Mapping[str, Any]]]:
    alone = [(("messenger",), mapping_at(value, "messenger"))] if "messenger" in value else []
    return [*alone, *mappings_at(value, "messengers")]


def _check_messengers(value: Json, problems: Problems) -> None:
    if "messenger" in value and "messengers" in value:
        problems.add(("messenger",), "given besides `messengers`; keep one")
    given = _messengers(value)
    _check_unique(_fields(given, "type"), "there can be one of each type", problems)
    for place, messenger in given:
        kind = messenger.get("type")
        if not isinstance(kind, str) or kind not in _MESSENGERS:
            continue
        if kind not in messenger:
            problems.add((*place, kind), f"missing; {_MESSENGERS[kind]}")
        for other in _MESSENGERS.keys() - {kind}:
            if other in messenger:
                problems.add((*place, other), f"would have no effect beside `type: {kind}`; remove it")


def _check_chains(value: Json, problems: Problems) -> None:
    """A chain that nothing goes through would be a wall that stands somewhere else."""
    used = set(OWN_CHAINS)
    for place, route in mappings_at(value, "policy_agent", "routes"):
        chain = route.get("chain")
        if isinstance(chain, str):
            used.add(chain)
            if chain not in mapping_at(value, "chains"):
                problems.add((*place, "chain"), f"there is no chain {shown(chain)} under `chains`")
    for name in mapping_at(value, "chains"):
        if name not in used and not problems.blames(("chains", name)):
            routed = "name it in a route of policy_agent, or call it `api` or `outbound`"
            problems.add(("chains", name), f"nothing goes through it; {did_you_mean(name, sorted(used), routed)}")


def _check_people(value: Json, problems: Problems) -> None:
    tokens = [(("agent",), mapping_at(value, "agent")), *mappings_at(value, "agents"), *mappings_at(value, "approvers")]
    _check_unique(_fields(tokens, "token"), "each needs a token of its own", problems)
    _check_unique(_fields(mappings_at(value, "agents"), "id"), "each agent needs an id of its own", problems)
    for key in ("id", "telegram_user_id"):
        _check_unique(_fields(mappings_at(value, "approvers"), key), "each is one person", problems)
    _check_owners(value, problems)
    at_home = {phone.get("approver") for _, phone in mappings_at(value, *_PHONES)}
    if any("webhook" in messenger for _, messenger in _messengers(value)):
        return  # which may name any of them
    for place, approver in mappings_at(value, "approvers"):
        if "token" not in approver and "telegram_user_id" not in approver and approver.get("id") not in at_home:
            problems.add(place, "can never answer; give a token, a telegram_user_id, or a phone at home")


def _check_owners(value: Json, problems: Problems) -> None:
    """An owner is kept from approving; one whose name nobody answers to would keep nobody from it."""
    people = [approver.get("id") for _, approver in mappings_at(value, "approvers")]
    for place, agent in mappings_at(value, "agents"):
        field, owner = (*place, "owner"), agent.get("owner")
        if people and isinstance(owner, str) and owner not in people and not problems.blames(field):
            problems.add(field, f"there is no {problems.shown(field, owner)} under `approvers`, so it keeps nobody")


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
