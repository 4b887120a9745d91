"""A deny of reading an entity, `ha_get_state(person.*)`, holds for every tool that would tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Agent, Gate, Outcome
from tests.gates import HandClock, approve, code_of, outcome_of, pending
from tests.scenarios.home_gates import a_gate_at_home
from tests.scenarios.test_cli import run

PERSON = "person.paulus"
WINDOW = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}
ALLOWED = {"pattern": "ha_*", "action": "allow"}


def policy(action: str = "deny", **rule: str) -> dict[str, Any]:
    return {"rules": [ALLOWED, {"pattern": "ha_get_state(person.*)", "action": action, **rule}]}


async def listed(gate: Gate, tool: str, **args: Any) -> dict[str, Any]:
    outcome = await gate.call(tool, args)
    assert outcome.ok, outcome
    data: dict[str, Any] = outcome.data
    return data


def persons(data: dict[str, Any]) -> list[str]:
    return [row["entity_id"] for row in data["entities"] if row["entity_id"].startswith("person.")]


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_get_state", {"entity_id": PERSON}),
        ("ha_get_entity_state", {"entity_id": PERSON}),
        ("ha_get_history", {"entity_ids": ["light.bed_light", PERSON], **WINDOW}),
        ("ha_get_statistics", {"statistic_ids": [PERSON], "period": "day", **WINDOW}),
    ],
)
async def test_a_deny_of_reading_an_entity_holds_for_every_tool_that_names_it(
    tmp_path: Path, tool: str, args: dict[str, Any]
) -> None:
    async with a_gate_at_home(tmp_path, policy()) as (gate, _):
        outcome = await gate.call(tool, args)
        assert (outcome.status.value, code_of(outcome)) == ("denied", 1001)


@pytest.mark.parametrize(
    ("tool", "args", "denied"),
    [
        ("ha_get_state", {"entity_id": "light.bed_ligth"}, "light.bed_light"),
        ("ha_get_entity_state", {"entity_id": "light.bed_ligth"}, "light.bed_light"),
        ("ha_get_history", {"entity_ids": ["light.bed_ligth"], **WINDOW}, "light.bed_light"),
        (
            "ha_get_statistics",
            {"statistic_ids": ["sensor.outside_temperatur"], "period": "day", **WINDOW},
            "sensor.outside_temperature",
        ),
    ],
)
async def test_a_misspelt_name_is_not_answered_with_one_that_may_not_be_read(
    tmp_path: Path, tool: str, args: dict[str, Any], denied: str
) -> None:
    rule = {"pattern": f"ha_get_state({denied})", "action": "deny"}
    for rules, is_named in (([ALLOWED], True), ([ALLOWED, rule], False)):
        async with a_gate_at_home(tmp_path, {"rules": rules}) as (gate, home):
            home.recorder.statistics["sensor.outside_temperature"] = []
            told = (await gate.call(tool, args)).error
        assert told is not None
        assert (told.code, f"`{denied}`" in str(told)) == (2002, is_named)


@pytest.mark.parametrize("tool", ["ha_get_states", "ha_list_entities"])
@pytest.mark.parametrize("action", ["deny", "ask"])
async def test_lists_leave_out_what_may_not_be_read_and_say_how_many(tmp_path: Path, tool: str, action: str) -> None:
    allowed = [{"pattern": pattern, "action": "allow"} for pattern in ("ha_get_states", "ha_list_*")]
    rules = {"rules": [*allowed, {"pattern": "ha_get_state(person.*)", "action": action}]}
    async with a_gate_at_home(tmp_path, rules) as (gate, home):
        known = [name for name in home.states if name.startswith("person.")]
        data = await listed(gate, tool)
        assert known
        assert (persons(data), data["withheld"]) == ([], len(known))
        assert data["count"] == len(home.states) - len(known)


async def test_a_filter_for_what_may_not_be_read_finds_nothing_and_says_why(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, policy()) as (gate, home):
        data = await listed(gate, "ha_list_entities", domain="person")
        known = [name for name in home.states if name.startswith("person.")]
        assert (data["entities"], data["count"], data["withheld"]) == ([], 0, len(known))


async def test_lists_show_everything_where_no_rule_speaks_against_it(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, {"rules": [ALLOWED]}) as (gate, home):
        data = await listed(gate, "ha_get_states")
        assert (data["count"], data["left_out"], data["withheld"]) == (len(home.states), 0, 0)


async def test_the_condition_of_a_rule_decides_for_whom_and_when_an_entity_is_left_out(tmp_path: Path) -> None:
    clock = HandClock()
    conditional = policy(when="agent_id == 'bot' and hour < 13")
    async with a_gate_at_home(tmp_path, conditional, clock=clock) as (gate, _):
        anna = Agent("anna", roles=("admin",))
        assert persons(await listed(gate, "ha_list_entities")) == []
        other = await gate.call("ha_list_entities", agent=anna)
        assert PERSON in persons(other.data)
        clock.advance(3_600)
        assert PERSON in persons(await listed(gate, "ha_list_entities"))


async def test_a_condition_on_the_state_of_the_project_is_judged_on_that_state(tmp_path: Path) -> None:
    conditional = policy(when="get(state, 'guests', False)")
    conditional["rules"].append({"pattern": "state.set(*)", "action": "allow"})
    async with a_gate_at_home(tmp_path, conditional) as (gate, _):
        assert PERSON in persons(await listed(gate, "ha_list_entities"))
        assert (await gate.call("state.set", path="/guests", value=True)).ok
        assert persons(await listed(gate, "ha_list_entities")) == []


async def test_a_condition_that_cannot_be_judged_leaves_the_entity_out(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, policy(when="inputs['nothing'] > 1")) as (gate, _):
        assert persons(await listed(gate, "ha_list_entities")) == []


async def test_a_default_counts_only_where_no_rule_spoke_of_the_list_itself(tmp_path: Path) -> None:
    defaults = [{"pattern": "ha_get_state(person.*)", "action": "deny"}, ALLOWED]
    async with a_gate_at_home(tmp_path, {"defaults": defaults}) as (gate, _):
        assert persons(await listed(gate, "ha_list_entities")) == []
    ruled = {"defaults": defaults, "rules": [{"pattern": "ha_list_*", "action": "allow"}]}
    async with a_gate_at_home(tmp_path, ruled, name="other.db") as (gate, _):
        assert PERSON in persons(await listed(gate, "ha_list_entities"))


async def test_a_list_that_a_person_agreed_to_leaves_out_the_same(tmp_path: Path) -> None:
    asked = policy()
    asked["rules"][0] = {"pattern": "ha_list_*", "action": "ask"}
    async with a_gate_at_home(tmp_path, asked) as (gate, _):
        question = await pending(gate, "ha_list_entities")
        await approve(gate, question)
        outcome: Outcome = await outcome_of(gate, question)
        assert (persons(outcome.data), outcome.data["withheld"] > 0) == ([], True)


async def test_lists_are_paged_and_no_page_is_another_call_for_rules_or_grants(tmp_path: Path) -> None:
    async with a_gate_at_home(tmp_path, policy()) as (gate, home):
        first = await gate.call("ha_list_entities", domain="light", limit=2)
        again = await gate.call("ha_list_entities", domain="light", limit=2, cursor=first.data["next_cursor"])
        assert first.signatures == again.signatures == ("ha_list_entities(, light)",)
        lights = sorted(name for name in home.states if name.startswith("light."))
        assert [row["entity_id"] for row in (*first.data["entities"], *again.data["entities"])] == lights[:4]
        assert first.data["left_out"] == len(lights) - 2
        states = await gate.call("ha_get_states", limit=1, cursor=lights[0])
        assert ([row["entity_id"] for row in states.data["entities"]], states.signatures) == (
            [lights[1]],
            ("ha_get_states",),
        )
        for wrong in ({"limit": 0}, {"limit": 1.5}, {"limit": "2"}, {"cursor": 5}):
            assert code_of(await gate.call("ha_get_states", wrong)) == 2002


async def test_a_history_without_an_end_goes_on_until_now(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate_at_home(tmp_path, clock=clock) as (gate, _):
        outcome = await gate.call("ha_get_history", entity_ids=["light.bed_light"], start="2026-03-04T00:00:00Z")
        assert outcome.data["end"] == "2026-03-04T12:00:00+00:00"
        args = {
            "statistic_ids": ["kitchen_sink:temperature_outdoor"],
            "start": "2026-03-04T00:00:00Z",
            "period": "hour",
        }
        outcome = await gate.call("ha_get_statistics", args)
        assert outcome.data["end"] == "2026-03-04T12:00:00+00:00"


def test_check_warns_where_reading_is_denied_and_templates_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps(policy()))
    checked = run(tmp_path, "check", "--tool", "ha_render_template", "--args", '{"template": "x"}')
    assert checked.returncode == 0
    assert b"a template reads whatever there is" in b" ".join(checked.stderr.split())
