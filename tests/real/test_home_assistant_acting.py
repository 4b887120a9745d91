"""Tools that act, through the whole gate, on a real Home Assistant, and what the ledger keeps of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.model.outcome import Status
from tests.contract.houses import a_raw
from tests.gates import ALLOW_ALL, code_of, rows
from tests.real.gates_at_home import a_real_gate, call, done, house_of, state_of
from tests.real.homes import RealHome

BED, GUEST, DOOR = "light.bed_light", "input_boolean.guest_mode", "lock.front_door"


@pytest.fixture
async def gate(tmp_path: Path, real_home: RealHome) -> AsyncIterator[Gate]:
    async with a_real_gate(tmp_path, real_home) as gate:
        yield gate


async def test_a6_b1_a_call_tells_its_context_and_what_it_changed(gate: Gate, real_home: RealHome) -> None:
    await call(gate, "light.turn_off", entity_id=BED)
    outcome = await call(gate, "light.turn_on", target={"entity_id": BED}, data={"brightness_pct": 40})
    assert outcome.ok, outcome.error
    (changed,) = outcome.data["changed"]
    assert (changed["entity_id"], changed["state"], changed["attributes"]["brightness"]) == (BED, "on", 102)
    answer = await house_of(real_home).rest("GET", f"/api/states/{BED}")
    assert answer.json()["context"]["id"] == outcome.data["context_id"]
    again = await call(gate, "light.turn_on", entity_id=BED, data={"brightness_pct": 40})
    assert (again.data["changed"], bool(again.data["context_id"])) == ([], True)
    assert again.data["other_targets"] == {BED: "on"}


async def test_b2_of_an_entity_that_is_written_twice_the_last_state_is_told(gate: Gate) -> None:
    await call(gate, "lock.lock", entity_id=DOOR)
    outcome = await call(gate, "lock.unlock", entity_id=DOOR)
    assert {one["entity_id"]: one["state"] for one in outcome.data["changed"]}[DOOR] == "unlocked"
    assert await state_of(gate, DOOR) == "unlocked"


async def test_b6_an_area_reaches_what_its_devices_hold_and_each_is_judged(gate: Gate) -> None:
    await call(gate, "light.turn_on", entity_id=["light.ceiling_lights", "light.kitchen_lights"])
    outcome = await call(gate, "light.turn_off", target={"area_id": "kitchen"})
    assert set(outcome.signatures) == {
        "ha_call_service(light.turn_off, light.ceiling_lights)",
        "ha_call_service(light.turn_off, light.kitchen_lights)",
    }
    lights = {one["entity_id"] for one in outcome.data["changed"]}
    assert {"light.ceiling_lights", "light.kitchen_lights"} <= lights


async def test_a_group_is_judged_and_reached_member_by_member(gate: Gate) -> None:
    outcome = await call(gate, "homeassistant.turn_on", entity_id="group.downstairs")
    assert outcome.ok, outcome.error
    assert "ha_call_service(lock.turn_on, lock.front_door)" in outcome.signatures
    assert await state_of(gate, "light.kitchen_lights") == "on"


async def test_a_sentence_may_ask_for_anything_so_that_its_risk_is_high(
    tmp_path: Path, gate: Gate, real_home: RealHome
) -> None:
    await call(gate, "lock.lock", entity_id=DOOR)
    sentence = {"text": "unlock the front door"}
    careful = {**ALLOW_ALL, "roles": {"admin": {"max_risk": "medium"}}}
    async with a_real_gate(tmp_path, real_home, careful, name="careful.db") as other:
        refused = await call(other, "conversation.process", data=sentence)
        assert (refused.status, code_of(refused)) == (Status.DENIED, 1009)
        assert await state_of(other, DOOR) == "locked"
    said = await call(gate, "conversation.process", data=sentence)
    assert DOOR in {one["entity_id"] for one in said.data["changed"]}


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("light.turn_on", {"entity_id": BED, "data": {"brightness_pct": "x"}}, "expected float for dictionary value"),
    ("light.turn_on", {"entity_id": BED, "data": {"foo": 1}}, "extra keys not allowed @ data['foo']"),
    ("lock.open", {"entity_id": DOOR}, "Entity lock.front_door does not support this service."),
    ("input_number.set_value", {"entity_id": "input_number.burst", "data": {"value": -5}}, "range 0.0 - 1000000.0"),
]


@pytest.mark.parametrize(("service", "args", "words"), REFUSALS)
async def test_b3_what_the_server_refuses_is_told_in_its_own_words(
    gate: Gate, service: str, args: dict[str, Any], words: str
) -> None:
    outcome = await call(gate, service, **args)
    assert outcome.error is not None
    assert outcome.error.code == 2003
    assert words in outcome.error.detail


UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("light.turn_on", {"entity_id": "light.bed_lihgt"}, "light.bed_lihgt"),
    ("lock.unlock", {"entity_id": "lock.nope"}, "lock.nope"),
    ("light.turn_on", {"target": {"area_id": "nowhere"}}, "nowhere"),
    ("light.turn_on", {"target": {"device_id": "no_such_device"}}, "no_such_device"),
    ("light.turn_on", {"target": {"label_id": "no_such_label"}}, "no_such_label"),
    ("scene.turn_on", {"entity_id": "scene.nope"}, "scene.nope"),
    ("light.nope", {"entity_id": BED}, "light.nope"),
]


@pytest.mark.parametrize(("service", "args", "name"), UNKNOWN)
async def test_b4_what_does_not_exist_is_an_error_though_the_server_would_call_it_a_success(
    gate: Gate, service: str, args: dict[str, Any], name: str
) -> None:
    outcome = await call(gate, service, **args)
    assert outcome.error is not None
    assert name in outcome.error.detail
    assert rows(gate, "SELECT * FROM entries WHERE kind = 'performed' AND status = 'success'") == []


async def test_b5_a_scene_is_activated_with_a_transition_and_without_one(gate: Gate) -> None:
    await call(gate, "light.turn_on", entity_id="light.kitchen_lights")
    await call(gate, "input_boolean.turn_off", entity_id="input_boolean.movie_mode")
    told = await done(gate, "ha_activate_scene", entity_id="scene.movie_night")
    now = {one["entity_id"]: one["state"] for one in told["changed"]}
    assert (now["light.kitchen_lights"], now["input_boolean.movie_mode"]) == ("off", "on")
    outcome = await gate.call("ha_activate_scene", entity_id="scene.movie_night", transition=1.5)
    assert outcome.ok, outcome.error
    assert "ha_call_service(light.turn_on, light.bed_light)" in outcome.signatures
    other = await gate.call("ha_activate_scene", entity_id=BED)
    assert other.error is not None
    assert other.error.code == 2002


async def test_b13_a_response_is_asked_for_where_the_service_has_one(gate: Gate) -> None:
    north = "weather.demo_weather_north"
    forecast = await call(gate, "weather.get_forecasts", entity_id=north, data={"type": "daily"})
    assert forecast.data["response"][north]["forecast"]
    assert (await call(gate, "script.answer")).data["response"] == {"value": 42}
    assert "response" not in (await call(gate, "light.turn_on", entity_id=BED)).data


async def test_an_event_is_fired_on_the_bus_and_none_that_the_gate_goes_by(gate: Gate, real_home: RealHome) -> None:
    async with a_raw(house_of(real_home)) as raw:
        await raw.ask("subscribe_events", event_type="doorbell_rang")
        await done(gate, "ha_fire_event", event_type="doorbell_rang", event_data={"door": "front"})
        event = await raw.event(lambda one: one["event_type"] == "doorbell_rang")
        assert event["data"] == {"door": "front"}
    forged = await gate.call("ha_fire_event", event_type="state_changed")
    assert forged.error is not None
    assert forged.error.code == 2002


async def test_a_call_is_undone_to_the_states_that_it_found(gate: Gate) -> None:
    await call(gate, "light.turn_on", entity_id=BED, data={"brightness": 77})
    await call(gate, "lock.lock", entity_id=DOOR)
    outcome = await gate.call("ha_activate_scene", entity_id="scene.movie_night")
    assert outcome.ok, outcome.error
    reverted = await gate.call("gate.revert", call_id=outcome.call_id)
    assert reverted.ok, reverted.error
    found = await done(gate, "ha_get_state", entity_id=BED)
    assert (found["state"], found["attributes"]["brightness"]) == ("on", 77)


async def test_what_has_changed_since_is_not_undone(gate: Gate, real_home: RealHome) -> None:
    await call(gate, "light.turn_on", entity_id=BED, data={"brightness": 77})
    outcome = await call(gate, "light.turn_off", entity_id=BED)
    async with a_raw(house_of(real_home)) as raw:
        await raw.call("light.turn_on", {"entity_id": BED}, brightness=5)
    reverted = await gate.call("gate.revert", call_id=outcome.call_id)
    assert reverted.error is not None
    assert BED in reverted.error.detail
    assert (await done(gate, "ha_get_state", entity_id=BED))["attributes"]["brightness"] == 5


async def test_every_call_is_in_the_log_of_commands_with_its_context_or_its_error(gate: Gate) -> None:
    good = await call(gate, "light.turn_on", target={"area_id": "bedroom"}, data={"brightness": 50})
    bad = await call(gate, "light.turn_on", entity_id=BED, data={"brightness": "x"})
    log = rows(gate, "SELECT * FROM ha_command_log ORDER BY id")
    assert [(row["domain"], row["service"]) for row in log] == [("light", "turn_on")] * 2
    assert json.loads(log[0]["target"])["area_id"] == "bedroom"
    assert json.loads(log[0]["data"]) == {"brightness": 50}
    assert [row["context_id"] for row in log] == [good.data["context_id"], None]
    assert bad.error is not None
    assert bad.error.detail in log[1]["result"]
    assert all(row["issued_at"] for row in log)


async def test_the_home_is_kept_when_the_gate_closes(tmp_path: Path, real_home: RealHome) -> None:
    async with a_real_gate(tmp_path, real_home) as gate:
        count = (await done(gate, "ha_get_states"))["count"]
    with closing(sqlite3.connect(tmp_path / "gate.db")) as db:
        kept = dict(db.execute("SELECT entity_id, state FROM ha_entity_snapshot"))
    assert len(kept) == count
    assert kept["zone.home"] == "0"
