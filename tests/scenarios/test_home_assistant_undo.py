"""Undoing what was done to a home: what can be is brought back, what cannot be is said, what has changed is left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, run_plan
from agent_gate.model.errors import PlanValidationError
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.simulated_home import SimulatedHome
from tests.gates import a_gate, approve, code_of, entries, outcome_of, pending, soon, until
from tests.scenarios.home_gates import a_gate_at_home, call_service, known_home

LIGHT, DOOR, WINDOW = "light.kitchen_lights", "lock.front_door", "cover.living_room_window"


async def revert(gate: Gate, outcome: Outcome) -> Outcome:
    return await gate.call("gate.revert", call_id=outcome.call_id)


async def test_without_its_home_a_call_is_not_undone_and_says_what_is_missing(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        off = await call_service(gate, "light.turn_off", LIGHT)
    async with a_gate(tmp_path) as gate:
        undone = await revert(gate, off)
    assert (code_of(undone), "`ha_call_service`, which is not a tool here" in str(undone.error)) == (2002, True)
    assert "-c config.yaml" in str(undone.error)


async def test_a_plan_for_a_home_that_is_not_configured_says_how_to_name_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        with pytest.raises(PlanValidationError, match=r"name that with `-c config\.yaml`"):
            await run_plan(gate, Plan((PlanStep("ha_list_areas", {}),)))


async def in_step(gate: Gate, home: SimulatedHome, entity_id: str) -> None:
    """The gate has heard what was done to an entity behind its back."""
    wanted = home.states[entity_id]
    await until(lambda: known_home(gate).entities[entity_id].context_id == wanted.context.id)


async def test_a_light_gets_back_its_state_and_its_brightness(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        before = home.states[LIGHT]
        off = await call_service(gate, "light.turn_off", LIGHT)
        undone = await revert(gate, off)
        assert (undone.ok, undone.data["restored"]) == (True, {LIGHT: "on"})
        assert (home.states[LIGHT].state, home.states[LIGHT].attributes) == (before.state, before.attributes)
        assert undone.signatures == (
            f"gate.revert({off.call_id})",
            f"ha_call_service(scene.apply, {LIGHT})",
            f"ha_call_service(light.apply, {LIGHT})",
        )
        [reverted] = entries(gate, "reverted")
        assert reverted["body"]["resources"] == {
            "call_id": off.call_id,
            "service": "scene.apply",
            "targets": [LIGHT],
            "states": {LIGHT: "on"},
        }


@pytest.mark.parametrize(
    ("service", "entity_id", "data"),
    [
        ("light.turn_on", LIGHT, {"brightness": 7}),
        ("light.turn_on", "light.bed_light", {}),
        ("homeassistant.toggle", "switch.ac", {}),
        ("lock.unlock", DOOR, {}),
        ("lock.lock", "lock.kitchen_door", {}),
        ("climate.set_temperature", "climate.heatpump", {"temperature": 25}),
        ("climate.set_hvac_mode", "climate.hvac", {"hvac_mode": "off"}),
        ("input_boolean.turn_on", "input_boolean.guest_mode", {}),
        ("input_number.set_value", "input_number.burst", {"value": 7}),
    ],
)
async def test_whatever_a_scene_can_set_comes_back(
    tmp_path: Path, service: str, entity_id: str, data: dict[str, Any]
) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        before = home.states[entity_id].state, home.states[entity_id].attributes
        done = await call_service(gate, service, entity_id, data=data)
        assert (home.states[entity_id].state, home.states[entity_id].attributes) != before
        undone = await revert(gate, done)
        assert undone.data["restored"] == {entity_id: before[0]}
        assert (home.states[entity_id].state, home.states[entity_id].attributes) == before


async def test_a_call_with_a_very_long_answer_can_be_undone_too(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        home.set_state("input_boolean.guest_mode", "off", {"note": "x" * 100_000})
        await in_step(gate, home, "input_boolean.guest_mode")
        done = await call_service(gate, "input_boolean.turn_on", "input_boolean.guest_mode")
        home.set_state("input_boolean.guest_mode", "on", {"note": "y"})
        await in_step(gate, home, "input_boolean.guest_mode")
        undone = await revert(gate, done)
        assert undone.data["restored"] == {"input_boolean.guest_mode": "off"}


async def test_all_that_a_scene_did_is_undone(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await gate.call("ha_activate_scene", entity_id="scene.movie_night")
        assert home.states["input_boolean.movie_mode"].state == "on"
        undone = await revert(gate, done)
        assert undone.data["restored"] == {LIGHT: "on", "light.bed_light": "off", "input_boolean.movie_mode": "off"}
        assert "not_restored" not in undone.data


async def test_a_cover_that_has_finished_moving_since_is_sent_back(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "cover.close_cover", WINDOW)
        await until(lambda: home.states[WINDOW].state == "closed")
        await in_step(gate, home, WINDOW)
        undone = await revert(gate, done)
        assert undone.ok
        await until(lambda: home.states[WINDOW].attributes["current_position"] == 70)


async def test_only_what_the_call_changed_is_brought_back(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "light.turn_off", "group.downstairs")
        undone = await revert(gate, done)
        assert undone.data["restored"] == {LIGHT: "on", "light.ceiling_lights": "on"}
        assert undone.data["already_as_before"] == [DOOR]
        assert {made.service for made in home.calls} == {"turn_off", "apply", "turn_on"}


async def test_what_somebody_has_changed_since_is_left_alone(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "light.turn_on", LIGHT, data={"brightness": 7})
        attributes = {**home.states[LIGHT].attributes, "brightness": 99}
        home.set_state(LIGHT, "on", attributes)
        await in_step(gate, home, LIGHT)
        refused = await revert(gate, done)
        assert (refused.status, code_of(refused)) == (Status.ERROR, 2003)
        assert f"`{LIGHT}` has changed since call `{done.call_id}`" in str(refused.error)
        assert "left as `on` (brightness 7" in str(refused.error)
        assert "is `on` (brightness 99" in str(refused.error)
        assert home.states[LIGHT].attributes == attributes
        assert entries(gate, "reverted") == []


async def test_one_target_that_has_changed_since_stops_the_whole(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await gate.call("ha_activate_scene", entity_id="scene.movie_night")
        home.set_state("input_boolean.movie_mode", "off")
        home.set_state("light.bed_light", "off", {})
        home.set_state(LIGHT, "on", {"brightness": 1})
        await in_step(gate, home, LIGHT)
        assert code_of(await revert(gate, done)) == 2003
        assert home.states[LIGHT].attributes == {"brightness": 1}


async def test_what_is_gone_cannot_come_back(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "light.turn_off", LIGHT)
        home.remove(LIGHT)
        await until(lambda: LIGHT not in known_home(gate).entities)
        refused = await revert(gate, done)
        assert f"`{LIGHT}` has changed since call `{done.call_id}`" in str(refused.error)
        assert "and is gone" in str(refused.error)


async def test_where_all_is_as_before_there_is_nothing_to_do(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        nothing, before = await call_service(gate, "lock.lock", DOOR), home.states[LIGHT]
        done = await call_service(gate, "light.turn_off", LIGHT)
        home.set_state(LIGHT, before.state, before.attributes)
        await in_step(gate, home, LIGHT)
        calls = len(home.calls)
        for call in (nothing, done):
            refused = await revert(gate, call)
            assert (refused.status, code_of(refused)) == (Status.ERROR, 2003)
            assert f"already as before call `{call.call_id}`; nothing is to be done" in str(refused.error)
        assert len(home.calls) == calls


@pytest.mark.parametrize(
    ("service", "args", "told"),
    [
        ("notify.mobile_app_pixel", {"data": {"message": "hello"}}, "changed nothing that can be brought back"),
        ("script.turn_on", {"entity_id": "script.movie_time"}, "`script.turn_on`: what it set off cannot be known"),
        ("script.movie_time", {}, "`script.movie_time`: what it set off cannot be known"),
        ("script.movie_time", {}, "`input_boolean.movie_mode`: it was changed too, and what it was"),
    ],
)
async def test_what_cannot_be_taken_back_is_said(tmp_path: Path, service: str, args: dict[str, Any], told: str) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        done = await call_service(gate, service, **args)
        assert done.ok, done.error
        refused = await revert(gate, done)
        assert (refused.status, code_of(refused)) == (Status.ERROR, 2002)
        assert told in str(refused.error)


async def test_an_event_cannot_be_taken_back(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        refused = await revert(gate, await gate.call("ha_fire_event", event_type="dinner_is_ready"))
        assert (code_of(refused), "fired an event" in str(refused.error)) == (2002, True)


async def test_what_the_home_refuses_to_bring_back_is_told_in_its_own_words(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "light.turn_off", LIGHT)
        home.unregister("light", "turn_on")
        refused = await revert(gate, done)
        assert (refused.status, code_of(refused)) == (Status.ERROR, 2003)
        assert "light.turn_on not found" in str(refused.error)
        assert entries(gate, "reverted") == []


async def test_what_comes_back_only_in_part_is_told_part_by_part(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        on = await call_service(gate, "homeassistant.turn_on", ["input_boolean.guest_mode", "switch.ac"])
        home.unregister("switch", "turn_off")
        undone = await revert(gate, on)
        assert undone.data["restored"] == {"input_boolean.guest_mode": "off"}
        assert undone.data["not_restored"] == [{"what": "switch.ac", "reason": "Service switch.turn_off not found."}]


async def test_an_undoing_is_judged_by_what_it_would_touch(tmp_path: Path) -> None:
    policy = {
        "rules": [
            {"pattern": "*", "action": "allow"},
            {"pattern": f"ha_call_service(lock.apply, {DOOR})", "action": "deny"},
        ]
    }
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        refused = await revert(gate, await call_service(gate, "lock.unlock", DOOR))
        assert (refused.status, code_of(refused), home.states[DOOR].state) == (Status.DENIED, 1001, "unlocked")


async def test_an_approval_is_void_where_things_have_moved_on(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "ha_*", "action": "allow"}]}
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        done = await gate.call("ha_activate_scene", entity_id="scene.movie_night")
        question = await pending(gate, "gate.revert", {"call_id": done.call_id})
        assert f"ha_call_service(scene.apply, {LIGHT})" in question.signatures
        home.set_state(LIGHT, "on", {"brightness": 1})
        await in_step(gate, home, LIGHT)
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
        assert (outcome.ok, home.states[LIGHT].attributes) == (False, {"brightness": 1})
        assert home.states["input_boolean.movie_mode"].state == "on"


async def test_nobody_undoes_what_nobody_knows(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        home.hold_answers()
        call = asyncio.create_task(call_service(gate, "light.turn_off", LIGHT))
        await until(lambda: home.calls)
        home.drop_connections()
        lost = await soon(call)
        home.release_answers()
        assert lost.status is Status.UNKNOWN
        known = known_home(gate)
        await until(lambda: known.is_live and known.entities[LIGHT].state == "off")
        refused = await revert(gate, lost)
        assert code_of(refused) == 2003
        assert f"nobody knows how call `{lost.call_id}` left `{LIGHT}`" in str(refused.error)
        assert home.states[LIGHT].state == "off"


async def test_while_the_home_is_out_of_reach_nothing_is_undone(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        done = await call_service(gate, "light.turn_off", LIGHT)
        known_home(gate).out_of_step()
        refused = await revert(gate, done)
        assert (refused.status, code_of(refused), home.states[LIGHT].state) == (Status.ERROR, 2006, "off")
