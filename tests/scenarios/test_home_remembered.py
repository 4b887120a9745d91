"""A gate that starts without its home tells what an earlier gate saw of it, and acts on nothing of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.moment import iso
from agent_gate.simulated_home import simulated_home
from tests.gates import ALLOW_ALL, NOON, HandClock, a_gate, code_of, rows, until
from tests.scenarios.home_gates import ADMIN, a_gate_at_home, call_service, known_home

LIGHT = "light.kitchen_lights"
NOWHERE = HomeAssistantConfig("http://127.0.0.1:9", "any-token")
LATER_S = 7_200.0


@asynccontextmanager
async def after_it_was_seen(directory: Path, policy: Any = ALLOW_ALL) -> AsyncIterator[Gate]:
    """A gate with a home ends at noon; another one starts two hours later, and the home is not there."""
    async with a_gate_at_home(directory, clock=HandClock()):
        pass
    later = HandClock(NOON + LATER_S)
    async with a_gate(directory, policy, clock=later, agent=ADMIN, home_assistant=NOWHERE) as gate:
        yield gate


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_get_state", {"entity_id": LIGHT}),
        ("ha_get_entity_state", {"entity_id": LIGHT}),
        ("ha_get_states", {}),
        ("ha_list_entities", {"domain": "light"}),
    ],
)
async def test_after_a_start_without_the_home_reads_tell_what_was_last_seen_and_how_old_it_is(
    tmp_path: Path, tool: str, args: dict[str, Any]
) -> None:
    async with after_it_was_seen(tmp_path) as gate:
        outcome = await gate.call(tool, args)
        assert outcome.ok, outcome.error
        told = {name: outcome.data[name] for name in ("live", "age_s", "stale", "captured_at")}
        assert told == {"live": False, "age_s": LATER_S, "stale": True, "captured_at": iso(NOON)}


async def test_what_is_remembered_is_the_state_and_the_attributes_and_nothing_is_made_up(tmp_path: Path) -> None:
    async with after_it_was_seen(tmp_path) as gate:
        told = (await gate.call("ha_get_state", entity_id=LIGHT)).data
        assert (told["state"], told["attributes"]["friendly_name"]) == ("on", "Kitchen Lights")
        assert (told["last_changed"], "area_name" in told) == (None, False)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_list_areas", {}),
        ("ha_list_services", {}),
        ("ha_list_entities", {"area": "Kitchen"}),
        ("ha_list_entities", {"domain": "new_domain"}),
        ("ha_get_state", {"entity_id": "light.came_later"}),
        ("ha_call_service", {"domain": "light", "service": "turn_on", "entity_id": LIGHT}),
        ("ha_call_service", {"domain": "light", "service": "turn_on", "target": {"area_id": "kitchen"}}),
        ("ha_activate_scene", {"entity_id": "scene.movie_night"}),
        ("ha_fire_event", {"event_type": "doorbell_rang"}),
    ],
)
async def test_what_was_not_stored_is_out_of_reach_and_nothing_is_acted_on(
    tmp_path: Path, tool: str, args: dict[str, Any]
) -> None:
    async with after_it_was_seen(tmp_path) as gate:
        assert code_of(await gate.call(tool, args)) == 2006


async def test_a_deny_of_reading_holds_for_what_is_remembered_too(tmp_path: Path) -> None:
    policy = {"rules": [*ALLOW_ALL["rules"], {"pattern": "ha_get_state(person.*)", "action": "deny"}]}
    async with after_it_was_seen(tmp_path, policy) as gate:
        data = (await gate.call("ha_list_entities")).data
        assert data["withheld"] > 0
        assert not [row for row in data["entities"] if row["domain"] == "person"]


async def test_a_gate_that_never_reached_the_home_leaves_what_is_remembered_as_it_is(tmp_path: Path) -> None:
    async with after_it_was_seen(tmp_path) as gate:
        before = rows(gate, "SELECT * FROM ha_entity_snapshot")
    async with a_gate(tmp_path, clock=HandClock(NOON + 2 * LATER_S), agent=ADMIN, home_assistant=NOWHERE) as gate:
        assert rows(gate, "SELECT * FROM ha_entity_snapshot") == before
        assert (await gate.call("ha_get_state", entity_id=LIGHT)).data["age_s"] == 2 * LATER_S


async def test_a_ledger_that_never_saw_a_home_answers_that_it_is_not_known(tmp_path: Path) -> None:
    async with a_gate(tmp_path, agent=ADMIN, home_assistant=NOWHERE) as gate:
        assert code_of(await gate.call("ha_get_states")) == 2006


async def test_once_the_home_is_there_what_was_remembered_is_forgotten(tmp_path: Path) -> None:
    async with simulated_home() as running:
        running.home.set_state("sensor.gone_soon", "1")
        settings = HomeAssistantConfig(running.url, running.token)
        async with a_gate(tmp_path, agent=ADMIN, home_assistant=settings):
            pass
        port = int(running.url.rpartition(":")[2])
    async with a_gate(tmp_path, agent=ADMIN, home_assistant=settings) as gate:
        assert (await gate.call("ha_get_state", entity_id="sensor.gone_soon")).data["stale"] is True
        home = running.home
        home.remove("sensor.gone_soon")
        async with simulated_home(home, port=port):
            await until(lambda: known_home(gate).is_live)
            fresh = (await gate.call("ha_get_state", entity_id=LIGHT)).data
            assert (fresh["live"], fresh["age_s"], "stale" in fresh) == (True, 0, False)
            assert code_of(await gate.call("ha_get_state", entity_id="sensor.gone_soon")) == 2002
            assert (await call_service(gate, "light.turn_off", LIGHT)).ok
