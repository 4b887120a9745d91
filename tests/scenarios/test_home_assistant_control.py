"""Acting on a home: what is judged is what is sent, once, and the answer tells what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, run_plan
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import ToolDeclaration
from agent_gate.model.verdict import Verdict
from agent_gate.policy.judge import Judge
from agent_gate.services.home_assistant.bounds import HomeBounds
from agent_gate.services.home_assistant.home import RegistryEntry as Placed
from agent_gate.simulated_home import RegistryEntry
from tests.gates import ALLOW_ALL, ASK_ALL, a_gate, approve, code_of, entries, outcome_of, pending, soon, until
from tests.scenarios.home_gates import a_gate_at_home, call_service, client_of, known_home

KITCHEN = ["light.ceiling_lights", "light.kitchen_lights"]


async def test_a_call_tells_its_cause_and_every_state_that_it_changed(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await call_service(gate, "light.turn_on", target={"area_id": "kitchen"}, data={"brightness": 7})
        assert outcome.signatures == tuple(f"ha_call_service(light.turn_on, {light})" for light in KITCHEN)
        assert (outcome.status, outcome.data["context_id"]) == (Status.SUCCESS, home.calls[-1].context.id)
        assert sorted(each["entity_id"] for each in outcome.data["changed"]) == KITCHEN
        assert {each["attributes"]["brightness"] for each in outcome.data["changed"]} == {7}
        assert outcome.data["other_targets"] == {}


async def test_in_a_simulation_a_call_is_only_judged_and_nobody_knows_what_it_would_give(tmp_path: Path) -> None:
    target = {"domain": "light", "service": "turn_on", "entity_id": KITCHEN[0]}
    named = {"domain": "light", "service": "turn_on", "entity_id": "${steps.lit.data.entities}"}
    steps = (PlanStep("ha_call_service", target, id="lit"), PlanStep("ha_call_service", named))
    async with a_gate_at_home(tmp_path) as (gate, home):
        result = await run_plan(gate, Plan(steps), simulate=True, fail_fast=False)
        assert [(one.status, one.simulation) for one in result.outcomes] == [
            (Status.SUCCESS, "only judged"),
            (Status.UNKNOWN, "cannot be known"),
        ]
        assert (result.outcomes[0].message, home.calls) == ("", [])


async def test_targets_that_stay_as_they_are_are_told_with_their_state(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        outcome = await call_service(gate, "lock.lock", ["lock.front_door", "lock.kitchen_door"])
        assert [each["entity_id"] for each in outcome.data["changed"]] == ["lock.kitchen_door"]
        assert outcome.data["other_targets"] == {"lock.front_door": "locked"}


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ({"target": {"area_id": "kitchen"}}, {"area_id": "kitchen"}),
        (
            {"target": {"area_id": ["kitchen"], "entity_id": KITCHEN[0]}},
            {"area_id": ["kitchen"], "entity_id": KITCHEN[0]},
        ),
        ({"entity_id": KITCHEN[0]}, {"entity_id": KITCHEN[0]}),
        ({"entity_id": KITCHEN[:1]}, {"entity_id": KITCHEN[:1]}),
        ({"entity_id": KITCHEN[0], "target": {"entity_id": KITCHEN}}, {"entity_id": KITCHEN}),
        ({"entity_id": "all"}, {"entity_id": "all"}),
        ({"entity_id": KITCHEN, "target": {"entity_id": "all"}}, {"entity_id": "all"}),
        ({"data": {"entity_id": KITCHEN[0], "brightness": 3}}, {"entity_id": KITCHEN[0], "brightness": 3}),
    ],
)
async def test_the_target_is_sent_as_it_was_given(tmp_path: Path, args: dict[str, Any], sent: dict[str, Any]) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        assert (await call_service(gate, "light.turn_on", **args)).ok
        assert [made.data for made in home.calls] == [sent]


async def test_a_service_that_answers_is_asked_for_its_answer(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        forecast = await call_service(
            gate, "weather.get_forecasts", "weather.demo_weather_north", data={"type": "daily"}
        )
        assert forecast.data["response"]["weather.demo_weather_north"]["forecast"]
        assert "response" not in (await call_service(gate, "light.turn_on", KITCHEN[0])).data


@pytest.mark.parametrize(
    ("service", "args", "told"),
    [
        ("light.turn_on", {"entity_id": "light.kitchen_light"}, "did you mean `light.kitchen_lights`"),
        ("light.turn_om", {"entity_id": "light.kitchen_lights"}, "did you mean `light.turn_on`"),
        ("light.turn_on", {"target": {"area_id": "Kitchen"}}, "did you mean `kitchen`?"),
        ("scene.turn_on", {"entity_id": "scene.movie_nite"}, "did you mean `scene.movie_night`"),
        ("cover.open_cover", {"target": {"area_id": "kitchen"}}, "reaches nothing by area_id `kitchen`"),
        ("light.turn_on", {"target": {"label_id": "cosy"}}, "no label with the id `cosy`"),
    ],
)
async def test_what_is_not_there_is_an_error_and_nothing_is_sent(
    tmp_path: Path, service: str, args: dict[str, Any], told: str
) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await call_service(gate, service, **args)
        assert (outcome.status, code_of(outcome), home.calls) == (Status.ERROR, 2002, [])
        assert told in str(outcome.error)


async def test_what_the_home_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await call_service(gate, "light.turn_on", KITCHEN[0], data={"brightness_pct": "much"})
        assert (outcome.status, code_of(outcome), home.calls) == (Status.ERROR, 2003, [])
        assert "expected float for dictionary value @ data['brightness_pct']" in str(outcome.error)


async def test_what_a_service_did_before_it_failed_is_told(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        home.unregister("switch", "turn_on")
        outcome = await call_service(
            gate, "scene.apply", data={"entities": {"light.bed_light": "on", "switch.ac": "on"}}
        )
        assert (outcome.status, home.states["light.bed_light"].state) == (Status.ERROR, "on")
        assert "switch.turn_on not found; meanwhile `light.bed_light` changed; look at the states" in str(outcome.error)


async def test_a_token_that_may_only_read_cannot_act(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, token="readonly_token") as (gate, home):
        outcome = await call_service(gate, "light.turn_off", KITCHEN[0])
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2003)
        assert home.states[KITCHEN[0]].state == "on"


@pytest.mark.parametrize(("args", "data"), [({}, {}), ({"transition": 1.5}, {"transition": 1.5})])
async def test_a_scene_is_activated_with_its_transition_or_without_one(
    tmp_path: Path, args: dict[str, Any], data: dict[str, Any]
) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await gate.call("ha_activate_scene", {"entity_id": "scene.good_night", **args})
        assert outcome.signatures == (
            "ha_call_service(scene.turn_on, scene.good_night)",
            "ha_call_service(scene.turn_on, light.ceiling_lights)",
            "ha_call_service(light.turn_on, light.ceiling_lights)",
            "ha_call_service(scene.turn_on, lock.front_door)",
            "ha_call_service(lock.turn_on, lock.front_door)",
            "ha_call_service(scene.turn_on, cover.living_room_window)",
            "ha_call_service(cover.turn_on, cover.living_room_window)",
        )
        assert home.calls[0].data == {"entity_id": ["scene.good_night"], **data}
        assert home.states["light.ceiling_lights"].state == "off"


async def test_what_is_no_scene_cannot_be_activated(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await gate.call("ha_activate_scene", entity_id="light.bed_light")
        assert (code_of(outcome), home.calls) == (2002, [])


async def test_a_rule_against_locks_holds_for_scenes_groups_areas_and_generic_services(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "*", "action": "allow"}, {"pattern": "ha_call_service(lock.*)", "action": "deny"}]}
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        outcomes = [
            await gate.call("ha_activate_scene", entity_id="scene.good_night"),
            await call_service(gate, "scene.apply", data={"entities": {"lock.front_door": "unlocked"}}),
            await call_service(gate, "homeassistant.turn_off", "group.downstairs"),
            await call_service(gate, "homeassistant.turn_off", target={"area_id": "kitchen"}),
            await call_service(gate, "homeassistant.turn_off", "all"),
        ]
        assert [(each.status, code_of(each)) for each in outcomes] == [(Status.DENIED, 1001)] * 5
        assert home.calls == []


@pytest.mark.parametrize(
    ("service", "args"),
    [
        ("lock.unlock", {"entity_id": "lock.front_dor"}),
        ("homeassistant.turn_off", {"entity_id": "lock.front_dor"}),
        ("lock.unlok", {"entity_id": "lock.front_door"}),
        ("lock.unlock", {"target": {"area_id": "hall"}}),
        ("scene.apply", {"data": {"entities": {"lock.front_dor": "unlocked"}}}),
    ],
)
async def test_who_is_denied_does_not_learn_what_there_is(tmp_path: Path, service: str, args: dict[str, Any]) -> None:
    policy = {"rules": [{"pattern": "*", "action": "allow"}, {"pattern": "ha_call_service(lock.*)", "action": "deny"}]}
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        outcome = await call_service(gate, service, **args)
        assert (outcome.status, code_of(outcome), home.calls) == (Status.DENIED, 1001, [])
        assert "did you mean" not in str(outcome.error)


async def test_a_question_shows_every_entity_that_the_call_reaches(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, ASK_ALL) as (gate, home):
        args = {"domain": "light", "service": "turn_off", "target": {"area_id": "kitchen"}}
        question = await pending(gate, "ha_call_service", args)
        assert question.signatures == tuple(f"ha_call_service(light.turn_off, {light})" for light in KITCHEN)
        await approve(gate, question)
        assert (await outcome_of(gate, question)).ok
        assert [home.states[light].state for light in KITCHEN] == ["off", "off"]
        [performing] = entries(gate, "performing")
        assert performing["body"]["resources"] == {"service": "light.turn_off", "targets": KITCHEN}


async def test_an_approval_is_void_where_the_area_holds_another_light_by_then(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, ASK_ALL) as (gate, home):
        args = {"domain": "light", "service": "turn_off", "target": {"area_id": "kitchen"}}
        question = await pending(gate, "ha_call_service", args)
        home.put_entry(RegistryEntry("light.office_rgbw_lights", "kitchen"))
        await until(lambda: "light.office_rgbw_lights" in known_home(gate).in_area("kitchen"))
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
        assert (outcome.status, code_of(outcome), home.calls) == (Status.DENIED, 1015, [])


class Meddler(Judge):
    """Changes something in the very moment in which a call has been judged for the first time."""

    def __init__(self, judge: Judge, meddle: Callable[[], None]) -> None:
        super().__init__(judge.policy, judge.surroundings)
        self._meddle = meddle
        self.times = 0

    def decide(self, bound: BoundCall, facts: Facts, tool: ToolDeclaration) -> Verdict:
        verdict = super().decide(bound, facts, tool)
        self.times += 1
        if self.times == 1:
            self._meddle()
        return verdict


async def test_a_call_whose_reach_grows_between_verdict_and_act_is_judged_again(tmp_path: Path) -> None:
    policy = {
        "rules": [
            {"pattern": "ha_call_service(*)", "action": "allow"},
            {"pattern": "ha_call_service(*, light.office_rgbw_lights)", "action": "deny"},
        ]
    }
    async with a_gate_at_home(tmp_path, policy) as (gate, home):
        _meddle_with_the_kitchen(gate, "light.office_rgbw_lights")
        outcome = await call_service(gate, "light.turn_off", target={"area_id": "kitchen"})
        assert (outcome.status, code_of(outcome), home.calls) == (Status.DENIED, 1001, [])


async def test_a_call_that_is_still_allowed_when_it_was_judged_again_is_made_once(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        meddler = _meddle_with_the_kitchen(gate, "light.office_rgbw_lights")
        outcome = await call_service(gate, "light.turn_off", target={"area_id": "kitchen"})
        assert (outcome.ok, len(home.calls), meddler.times) == (True, 1, 2)
        assert outcome.signatures[-1] == "ha_call_service(light.turn_off, light.office_rgbw_lights)"
        assert len(entries(gate, "performing")) == 1


def _meddle_with_the_kitchen(gate: Gate, entity_id: str) -> Meddler:
    known = known_home(gate)
    moving = [*known.registry.values(), Placed(entity_id, "kitchen")]
    gate.judge = meddler = Meddler(gate.judge, lambda: known.learn(registry=moving))
    return meddler


async def test_a_call_whose_answer_is_lost_is_unknown_and_never_made_again(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        home.hold_answers()
        call = asyncio.create_task(call_service(gate, "light.turn_off", KITCHEN[0]))
        await until(lambda: home.calls)
        home.drop_connections()
        outcome = await soon(call)
        assert (outcome.status, code_of(outcome)) == (Status.UNKNOWN, 2007)
        home.release_answers()
        await until(lambda: known_home(gate).is_live)
        assert len(home.calls) == 1


async def test_a_call_that_takes_too_long_is_unknown(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        home.hold_answers()
        client_of(gate).bounds = HomeBounds(service_s=0.05)
        outcome = await call_service(gate, "light.turn_off", KITCHEN[0])
        assert (outcome.status, code_of(outcome), len(home.calls)) == (Status.UNKNOWN, 2007, 1)


async def test_a_call_that_the_end_of_its_run_cuts_off_is_unknown_too(tmp_path: Path) -> None:
    args = {"domain": "light", "service": "turn_off", "entity_id": KITCHEN[0]}
    async with a_gate_at_home(tmp_path, {**ALLOW_ALL, "global_timeout_seconds": 1}) as (gate, home):
        home.hold_answers()
        result = await soon(run_plan(gate, Plan((PlanStep("ha_call_service", args),), "test")))
        [outcome] = result.outcomes
        assert (outcome.status, code_of(outcome), len(home.calls)) == (Status.UNKNOWN, 2007, 1)


async def test_a_home_that_was_never_reached_is_unavailable(tmp_path: Path) -> None:
    nowhere = HomeAssistantConfig("http://127.0.0.1:9", "token")
    async with a_gate(tmp_path, home_assistant=nowhere) as gate:
        outcome = await call_service(gate, "light.turn_off", KITCHEN[0])
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2006)
        assert entries(gate, "performing") == []


async def test_an_event_reaches_whoever_listens(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        heard: list[Any] = []
        service = next(each for each in gate.services if each.name == "home_assistant")
        service.client.listen("dinner_is_ready", heard.append)  # type: ignore[attr-defined]
        outcome = await gate.call("ha_fire_event", event_type="dinner_is_ready", event_data={"in": "kitchen"})
        assert (outcome.ok, outcome.signatures) == (True, ("ha_fire_event(dinner_is_ready)",))
        await until(lambda: heard)
        assert heard[0]["data"] == {"in": "kitchen"}
        assert home.calls == []


@pytest.mark.parametrize(
    "event_type", ["state_changed", "area_registry_updated", "service_registered", "mobile_app_notification_action"]
)
async def test_events_that_the_gate_goes_by_cannot_be_forged(tmp_path: Path, event_type: str) -> None:
    async with a_gate_at_home(tmp_path) as (gate, _):
        forged = {"entity_id": "lock.front_door", "new_state": None}
        outcome = await gate.call("ha_fire_event", event_type=event_type, event_data=forged)
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)
        assert "lock.front_door" in known_home(gate).entities


async def test_a_token_that_may_not_fire_events_is_told_apart(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, token="limited_token") as (gate, _):
        outcome = await gate.call("ha_fire_event", event_type="dinner_is_ready")
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2003)
        assert "may not fire events; give it one of an administrator" in str(outcome.error)


@pytest.mark.parametrize("service", ["restart", "stop"])
async def test_a_server_that_is_told_to_end_answers_first_and_the_outcome_is_known(
    tmp_path: Path, service: str
) -> None:
    async with a_gate_at_home(tmp_path) as (gate, home):
        outcome = await call_service(gate, f"homeassistant.{service}")
        assert (outcome.status.value, outcome.error) == ("success", None)
        await until(lambda: not known_home(gate).is_live)
        assert home.life.comes_back == (service == "restart")
