"""What a grant binds: the table in the reference, tool by tool and argument by argument, and what is never granted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate import Agent, Approver, Gate, GateError
from agent_gate.config import HomeAssistantConfig
from agent_gate.gate.approvals import Approvals
from agent_gate.model.approval import GrantTerms
from agent_gate.model.grant import Grant, grant_key
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.model.work import GiveGrant, Work
from agent_gate.simulated_home import simulated_home
from agent_gate.simulated_home.services import Call, Service
from agent_gate.tools.grants import why_ungranted
from agent_gate.tools.home_assistant.declarations import HA_CALL_SERVICE
from agent_gate.tools.home_assistant.reach import BEYOND, CHANGEABLE, PASSED_ON
from agent_gate.tools.home_assistant.signatures import service_call
from tests.gates import ANNA, a_gate, outcome_of, pending

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "grants.md").read_text()
NEVER = "is never granted"
ASK: Mapping[str, Json] = {
    "rules": [{"pattern": "*", "action": "ask"}],
    "roles": {"admin": {"max_risk": "high"}},
    "tools": {
        "fs.read": {"allow_paths": ["./**"]},
        "fs.write": {"allow_paths": ["./**"]},
        "shell.run": {"allow_executables": ["echo"], "allow_env": ["A"], "trusted_dirs": ["/usr/bin", "/bin"]},
        "http.get": {"allow_domains": ["*"], "allow_schemes": ["http"], "allow_ports": [9], "deny_private_ips": False},
    },
}
BOSS = Agent("boss", roles=("admin",))
SOON, LATER = ({"start": f"2026-01-0{day}T00:00:00Z", "end": f"2026-01-0{day}T06:00:00Z"} for day in (1, 2))
HISTORY = {"entity_ids": ["lock.front_door"], **SOON}
STATISTICS = {"statistic_ids": ["sensor.a"], **SOON, "period": "day"}
BED = {"domain": "light", "service": "turn_on", "entity_id": "light.bed_light", "data": {"brightness": 10}}

CALLS: Mapping[str, tuple[Mapping[str, Json], Mapping[str, Json]]] = {
    "fs.read": ({"path": "a"}, {"path": "b", "encoding": "latin-1", "binary": True}),
    "fs.write": (
        {"path": "a", "content": "x"},
        {"path": "b", "content": "y", "encoding": "latin-1", "mode": "append", "create_dirs": True},
    ),
    "http.get": (
        {"url": "http://127.0.0.1:9/"},
        {"url": "http://127.0.0.1:9/b", "headers": {"X-A": "b"}, "timeout": 3},
    ),
    "shell.run": (
        {"argv": ["echo", "a"]},
        {"argv": ["echo", "b"], "cwd": "below", "env": {"A": "b"}, "timeout": 3, "fail_on": "nonzero"},
    ),
    "state.get": ({"path": "/a"}, {"path": "/b"}),
    "state.set": ({"path": "/a", "value": 1}, {"path": "/b", "value": 2}),
    "state.patch": (
        {"patch": [{"op": "add", "path": "/a", "value": 1}]},
        {"patch": [{"op": "add", "path": "/a", "value": 2}]},
    ),
    "state.delete": ({"path": "/a"}, {"path": "/b"}),
    "state.at": ({"version": 0}, {"version": 1, "snapshot_id": "initial"}),
    "state.history": ({"limit": 1}, {"limit": 2}),
    "state.diff": ({"from": 0, "to": 0}, {"from": 1, "to": 1}),
    "ha_get_state": ({"entity_id": "lock.front_door"}, {"entity_id": "lock.kitchen_door"}),
    "ha_get_entity_state": ({"entity_id": "lock.front_door"}, {"entity_id": "lock.kitchen_door"}),
    "ha_get_states": ({}, {"limit": 1, "cursor": "lock.front_door"}),
    "ha_list_entities": (
        {"domain": "lock"},
        {"domain": "light", "area": "kitchen", "limit": 1, "cursor": "lock.front_door"},
    ),
    "ha_list_services": ({"domain": "lock"}, {"domain": "light"}),
    "ha_get_history": (HISTORY, {"entity_ids": ["lock.a"], **LATER}),
    "ha_get_statistics": (
        STATISTICS,
        {"statistic_ids": ["sensor.b"], **LATER, "period": "hour"},
    ),
    "ha_render_template": ({"template": "{{ 1 }}"}, {"template": "{{ states('lock.front_door') }}"}),
    "ha_call_service": (
        BED,
        {
            "domain": "homeassistant",
            "service": "turn_off",
            "data": {"brightness": 20},
            "target": {"entity_id": "light.bed_light"},
        },
    ),
}  # fmt: skip
"""Of each tool a call, and another value for each of its arguments."""
SAME_KIND = {"cmd": "argv", "command": "argv", "entity_id": "target"}
"""Arguments that say the same as another one; either may be given."""
BY_ID_ALONE = ("gate.revert", "state.revert")
"""Their one argument is an identifier in the signature, and names what is there once only."""
OF_DOORS = "gate.read"
"""A door asks for it in an agent's name; nobody calls it."""


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| `([a-z_.]+)` \| ([^|]*) \| ([^|]*) ?\|$", PAGE, re.MULTILINE)
    return {tool: (binds.strip(), free.strip()) for tool, binds, free in found}


def names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


@asynccontextmanager
async def a_gate_with_everything(directory: Path) -> AsyncIterator[Gate]:
    (directory / "below").mkdir()
    for name in ("a", "b"):
        (directory / name).write_text(name)
    async with simulated_home() as running:
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_gate(directory, ASK, home_assistant=settings, working_dir=directory, agent=BOSS) as gate:
            yield gate


async def test_the_table_names_every_tool_and_every_argument(tmp_path: Path) -> None:
    async with a_gate_with_everything(tmp_path) as gate:
        tools = {registered.declaration.name: registered.declaration for registered in gate.tools.all()}
    table = rows()
    assert set(table) == set(tools)
    for name, declaration in tools.items():
        binds, free = table[name]
        if binds != NEVER:
            assert names(binds) | names(free) == set(declaration.input_schema.get("properties", {})), name
            assert not names(binds) & names(free), name


async def granted(gate: Gate, tool: str, args: Mapping[str, Json], by: Approver = ANNA) -> None:
    asked = await pending(gate, tool, args)
    await gate.answer(asked.call_id, approve=True, by=by, nonce=asked.nonce, grant=GrantTerms(3600, 50))
    await outcome_of(gate, asked)
    assert len(await Approvals(gate).grants()) == 1


@pytest.mark.parametrize("tool", CALLS)
async def test_another_value_of_a_bound_argument_is_asked_about_and_of_a_free_one_is_not(
    tmp_path: Path, tool: str
) -> None:
    given, others = CALLS[tool]
    binds, free = map(names, rows()[tool])
    assert binds - set(SAME_KIND) <= set(others) | set(given)
    async with a_gate_with_everything(tmp_path) as gate:
        await granted(gate, tool, given)
        again = await gate.call(tool, given, wait=False)
        assert again.status is not Status.PENDING_APPROVAL
        for name, value in others.items():
            outcome = await gate.call(tool, {**given, name: value}, wait=False)
            is_asked = outcome.status is Status.PENDING_APPROVAL
            assert is_asked == (name in binds), (name, outcome)
            assert name in binds | free


def test_every_tool_of_the_table_is_tried_or_has_nothing_to_try() -> None:
    untried = {tool for tool, (binds, free) in rows().items() if tool not in CALLS and names(binds) | names(free)}
    assert untried == {*BY_ID_ALONE, OF_DOORS}


async def test_a_grant_to_turn_on_the_bed_light_does_nothing_else(tmp_path: Path) -> None:
    others: list[dict[str, Json]] = [
        {"data": {"brightness": 11}},
        {"data": {**BED["data"], "flash": "long"}},  # type: ignore[dict-item]
        {"data": {}},
        {"entity_id": ["light.bed_light", "lock.front_door"]},
        {"data": {**BED["data"], "x": "lock.front_door"}},  # type: ignore[dict-item]
        {"domain": "homeassistant"},
        {"domain": "lock", "service": "unlock", "entity_id": "lock.front_door", "data": {}},
        {"domain": "conversation", "service": "process", "entity_id": None, "data": {"text": "unlock the door"}},
    ]
    async with a_gate_with_everything(tmp_path) as gate:
        await granted(gate, "ha_call_service", BED)
        assert (await gate.call("ha_call_service", BED, wait=False)).status is Status.SUCCESS
        for other in others:
            args = {name: value for name, value in {**BED, **other}.items() if value is not None}
            assert (await gate.call("ha_call_service", args, wait=False)).status is not Status.SUCCESS, other


DATA = st.dictionaries(
    st.sampled_from(["brightness", "message", "a"]), st.integers(-9, 9) | st.text(max_size=5), max_size=3
)


@given(data=DATA, other=DATA)
def test_no_two_calls_with_other_data_have_the_same_key(data: dict[str, Json], other: dict[str, Json]) -> None:
    def key(given: dict[str, Json]) -> str:
        args = {"domain": "light", "service": "turn_on", "entity_id": "light.a", "data": given}
        return grant_key("ha_call_service", service_call(args).signatures, args, sorted(HA_CALL_SERVICE.sensitive))

    assert (key(data) == key(other)) == (data == other)


SET_OFF = [
    *(f"ha_call_service({domain}.anything)" for domain in (*BEYOND, *PASSED_ON)),
    *(f"ha_call_service({service}, scene.a)" for service in CHANGEABLE),
]


@pytest.mark.parametrize("signature", SET_OFF)
def test_what_nobody_can_know_is_not_granted_wherever_it_stands_among_the_signatures(signature: str) -> None:
    assert why_ungranted([signature])
    assert why_ungranted(["ha_call_service(light.turn_on, light.a)", signature])
    assert why_ungranted(["gate.revert(1)", signature])


def test_the_page_names_every_domain_that_is_never_granted() -> None:
    listed = PAGE.partition("## What is never granted")[2]
    assert set(re.findall(r"`(\w+)\.\*`", listed)) == {*BEYOND, *PASSED_ON}
    assert set(CHANGEABLE) <= set(re.findall(r"`([\w.]+)`", listed))


UNKNOWABLE: list[tuple[str, dict[str, Json]]] = [
    ("ha_fire_event", {"event_type": "doorbell_rang"}),
    ("ha_activate_scene", {"entity_id": "scene.movie_night"}),
    ("ha_call_service", {"domain": "scene", "service": "turn_on", "entity_id": "scene.movie_night"}),
    ("ha_call_service", {"domain": "homeassistant", "service": "turn_on", "entity_id": "script.movie_time"}),
    ("ha_call_service", {"domain": "script", "service": "movie_time"}),
    ("ha_call_service", {"domain": "conversation", "service": "process", "data": {"text": "turn on the bed light"}}),
]


@pytest.mark.parametrize(("tool", "args"), UNKNOWABLE)
async def test_such_a_call_is_asked_about_each_time_and_no_grant_of_earlier_counts(
    tmp_path: Path, tool: str, args: dict[str, Json]
) -> None:
    async def understand(_: Call) -> None: ...

    async with simulated_home() as running:
        running.home.register(Service("conversation", "process", understand, takes_anything=True))
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_gate(tmp_path, ASK, home_assistant=settings, agent=BOSS) as gate:
            asked = await pending(gate, tool, args)
            with pytest.raises(GateError, match="nobody can know"):
                await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce, grant=GrantTerms())
            await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce)
            assert (await outcome_of(gate, asked)).status is Status.SUCCESS
            registered = gate.tools.find(tool)
            assert registered is not None
            key = grant_key(tool, asked.signatures, args, sorted(registered.declaration.sensitive))
            now = gate.clock.now()
            old = Grant(
                "g",
                "default",
                "boss",
                tool,
                asked.signatures,
                key,
                "anna",
                ("admin",),
                asked.call_id,
                now,
                now + 60,
                5,
                5,
            )
            await gate.ledger.commit(Work("default", changes=(GiveGrant(old),)))
            assert (await gate.call(tool, args, wait=False)).status is Status.PENDING_APPROVAL
