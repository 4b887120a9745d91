"""Plans: one call after another under one run, and what the record says of the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, PlanValidationError, run_plan, tool
from agent_gate.gate.plans import RunResult
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json, Mode
from tests.gates import (
    ALLOW_ALL,
    HandClock,
    Row,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    entries,
    projects,
    reader,
    rows,
    sender,
    soon,
)


def plan(*steps: PlanStep | str) -> Plan:
    return Plan(tuple(step if isinstance(step, PlanStep) else PlanStep(step) for step in steps), "test")


def codes(result: RunResult) -> list[int | None]:
    return [code_of(outcome) for outcome in result.outcomes]


def run_row(gate: Gate, result: RunResult) -> Row:
    [row] = rows(gate, "SELECT * FROM runs WHERE run_id = ?", result.run_id)
    return row


async def test_steps_run_in_order_and_the_run_is_on_record(tmp_path: Path) -> None:
    acts: list[str] = []
    told: list[tuple[int, str, bool]] = []
    two = plan(PlanStep("mail.send", {"text": "a"}), PlanStep("mail.send", {"text": "b"}))
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        result = await run_plan(gate, two, on_step=lambda i, step, end: told.append((i, step.tool, end.ok)))
        assert (result.status, acts) == ("completed", ["a", "b"])
        assert told == [(0, "mail.send", True), (1, "mail.send", True)]
        row = run_row(gate, result)
        assert {key: row[key] for key in ("status", "mode", "total_steps", "completed_steps", "failed_steps")} == {
            "status": "completed",
            "mode": "run",
            "total_steps": 2,
            "completed_steps": 2,
            "failed_steps": 0,
        }
        assert row["policy_hash"] == gate.judge.policy_hash
        assert '"text":"b"' in row["plan_json"]
        calls = rows(gate, "SELECT step_index, tool_name FROM tool_calls WHERE run_id = ?", result.run_id)
        assert [(call["step_index"], call["tool_name"]) for call in calls] == [(0, "mail.send"), (1, "mail.send")]


async def test_the_first_step_that_is_no_success_ends_the_plan_and_earlier_steps_stay(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "*", "action": "allow"}, {"pattern": "mail.send(bad)", "action": "deny"}]}
    acts: list[str] = []
    steps = plan("counter.add", PlanStep("mail.send", {"text": "bad"}), PlanStep("mail.send", {"text": "never"}))
    async with a_gate(tmp_path, policy, sender(acts), counter()) as gate:
        result = await run_plan(gate, steps)
        assert (result.status, codes(result), acts) == ("failed", [None, 1001], [])
        assert (await gate.ledger.state("default")).document == {"n": 1}
        row = run_row(gate, result)
        assert [row[key] for key in ("status", "total_steps", "completed_steps", "denied_steps", "failed_steps")] == [
            "failed",
            3,
            1,
            1,
            0,
        ]


async def test_without_fail_fast_the_other_steps_run_and_the_run_has_failed_all_the_same(tmp_path: Path) -> None:
    @tool("break", effect="write")
    async def broken() -> None:
        raise ValueError("no")

    acts: list[str] = []
    steps = plan("break", PlanStep("mail.send", {"text": "b"}))
    async with a_gate(tmp_path, ALLOW_ALL, broken, sender(acts)) as gate:
        result = await run_plan(gate, steps, fail_fast=False)
        assert (result.status, codes(result), acts) == ("failed", [2003, None], ["b"])
        row = run_row(gate, result)
        assert (row["completed_steps"], row["failed_steps"]) == (1, 1)


async def test_a_step_can_use_what_an_earlier_one_reached(tmp_path: Path) -> None:
    @tool("make", effect="read", cost=0, risk="low")
    async def make() -> Json:
        return {"n": 3, "list": [10, {"deep": True}], "text": "x", "syntax": "${steps.a.data.n}"}

    given: list[Json] = []

    @tool("take", effect="write", schema={"type": "object"})
    async def take(**values: Json) -> None:
        given.append(values)

    references = {
        "whole": "${steps.a.data.n}",
        "inside": "n is ${steps.a.data.n}, list is ${steps.a.data.list}",
        "deep": ["${steps.a.data.list.1.deep}", "${steps.a.data.list[1].deep}", {"all": "${steps.a.data.list}"}],
        "not one": "${step.a.data} ${HOME} $steps.a.data",
        "not again": "${steps.a.data.syntax}",
    }
    async with a_gate(tmp_path, ALLOW_ALL, make, take) as gate:
        result = await run_plan(gate, plan(PlanStep("make", id="a"), PlanStep("take", references)))
        assert result.status == "completed"
    assert given == [
        {
            "whole": 3,
            "inside": 'n is 3, list is [10,{"deep":true}]',
            "deep": [True, True, {"all": [10, {"deep": True}]}],
            "not one": "${step.a.data} ${HOME} $steps.a.data",
            "not again": "${steps.a.data.n}",
        }
    ]


@pytest.mark.parametrize("reference", ["${steps.a.data.none}", "${steps.a.data.list[0]}", "x ${steps.a.data.list.7} y"])
async def test_a_reference_to_what_no_step_reached_is_3004_and_recorded(tmp_path: Path, reference: str) -> None:
    @tool("make", effect="read", cost=0, risk="low")
    async def make() -> Json:
        return {"list": []}

    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, make, sender(acts)) as gate:
        result = await run_plan(gate, plan(PlanStep("make", id="a"), PlanStep("mail.send", {"text": reference})))
        assert (codes(result), acts) == ([None, 3004], [])
        settled = [row for row in entries(gate, "settled") if row["tool"] == "mail.send"]
        assert [(row["status"], row["body"]["error"]["code"], row["run_id"]) for row in settled] == [
            ("error", 3004, result.run_id)
        ]


async def test_a_reference_tells_a_step_that_did_not_succeed_from_a_result_without_that_field(tmp_path: Path) -> None:
    @tool("give", effect="read", cost=0, risk="low")
    async def give(works: bool) -> Json:
        if not works:
            raise RuntimeError("it does not work")
        return {"n": 1}

    @tool("none", effect="read", cost=0, risk="low")
    async def none() -> None:
        return None

    steps = [
        PlanStep("give", {"works": True}, id="a"),
        PlanStep("give", {"works": False}, id="b"),
        PlanStep("none", id="c"),
        *(PlanStep("give", {"works": f"${{steps.{one}.data.m}}"}) for one in "abc"),
    ]
    async with a_gate(tmp_path, ALLOW_ALL, give, none) as gate:
        result = await run_plan(gate, plan(*steps), fail_fast=False)
    succeed = "let an earlier step with that id succeed"
    look = f"see what it returned: `agent-gate show-run {result.run_id} --json`"
    assert [outcome.error and (outcome.error.detail, outcome.error.suggestion) for outcome in result.outcomes[3:]] == [
        ("`give` refers to ${steps.a.data.m}, which is not in the result of that step", look),
        ("`give` refers to ${steps.b.data.m}, which no earlier step reached", succeed),
        ("`give` refers to ${steps.c.data.m}, which is not in the result of that step", look),
    ]


async def test_a_plan_with_an_unknown_tool_is_refused_before_anything_runs(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        before = len(entries(gate))
        with pytest.raises(PlanValidationError) as refused:
            await run_plan(gate, plan("mail.send", "nobody.knows"))
        assert (refused.value.code, acts, len(entries(gate))) == (3003, [], before)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, None),
        ({"mode": "interactive"}, 1018),
        ({"mode": "assisted"}, None),
        ({"mode": "autonomous"}, None),
        ({"agent": agent(mode=Mode.INTERACTIVE)}, 1018),
        ({"agent": agent(mode=Mode.INTERACTIVE), "mode": "autonomous"}, 1018),
        ({"agent": agent(mode=Mode.AUTONOMOUS), "mode": "interactive"}, 1018),
        ({"agent": agent(mode=Mode.AUTONOMOUS)}, None),
    ],
)
async def test_a_plan_with_more_steps_than_its_mode_allows_is_refused_before_the_first(
    tmp_path: Path, options: dict[str, Any], code: int | None
) -> None:
    acts: list[str] = []
    policy = {**ALLOW_ALL, "limits": {"steps": {"interactive": 1, "assisted": 2}}}
    async with a_gate(tmp_path, policy, sender(acts)) as gate:
        result = await run_plan(gate, plan("mail.send", "mail.send"), **options)
        assert (result.problem.code if result.problem else None) == code
        assert len(acts) == (0 if code else 2)
        row = run_row(gate, result)
        assert (row["status"], row["completed_steps"]) == (("failed", 0) if code else ("completed", 2))


async def test_the_run_s_timeout_stops_the_steps_that_have_not_begun(tmp_path: Path) -> None:
    clock = HandClock()
    acts: list[str] = []

    @tool("long.work", effect="write")
    async def work() -> None:
        clock.advance(31)

    async with a_gate(tmp_path, {**ALLOW_ALL, "global_timeout_seconds": 30}, work, sender(acts), clock=clock) as gate:
        result = await run_plan(gate, plan("long.work", "mail.send"))
        assert (result.status, codes(result), acts) == ("failed", [None, 1008], [])
        assert result.outcomes[1].status is Status.DENIED
        assert run_row(gate, result)["denied_steps"] == 1


async def test_the_run_s_timeout_cuts_off_a_step_that_is_running(tmp_path: Path) -> None:
    @tool("endless", effect="write")
    async def endless() -> None:
        await asyncio.Event().wait()

    async with a_gate(tmp_path, {**ALLOW_ALL, "global_timeout_seconds": 0.05}, endless) as gate:
        result = await soon(run_plan(gate, plan("endless")))
        assert codes(result) == [1008]
        assert run_row(gate, result)["status"] == "failed"


async def test_the_run_s_timeout_also_runs_while_a_person_thinks(tmp_path: Path) -> None:
    clock = HandClock()
    acts: list[str] = []
    policy = {"rules": [{"pattern": "*", "action": "ask"}], "global_timeout_seconds": 30}
    async with a_gate(tmp_path, policy, sender(acts), clock=clock) as gate:
        run = asyncio.create_task(run_plan(gate, plan("mail.send")))
        while not (asked := await gate.ledger.questions()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        assert asked[0].expires_at == clock.now() + 30
        clock.advance(30)
        result = await soon(run)
        assert (codes(result), acts) == ([1016], [])


async def test_a_step_that_is_approved_has_only_the_rest_of_the_run_s_time(tmp_path: Path) -> None:
    clock = HandClock()

    @tool("endless", effect="write")
    async def endless() -> None:
        await asyncio.Event().wait()

    policy = {"rules": [{"pattern": "*", "action": "ask"}], "global_timeout_seconds": 30}
    async with a_gate(tmp_path, policy, endless, clock=clock) as gate:
        run = asyncio.create_task(run_plan(gate, plan("endless")))
        while not (asked := await gate.ledger.questions()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        clock.advance(29.95)
        await approve(gate, asked[0])
        assert codes(await soon(run)) == [1008]


async def test_a_tool_may_be_called_only_so_often_in_one_run(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, {**ALLOW_ALL, "max_calls_per_tool": 2}, sender(acts), reader([])) as gate:
        result = await run_plan(gate, plan("mail.send", "note.read", "mail.send", "note.read", "mail.send"))
        assert (codes(result), len(acts)) == ([None, None, None, None, 1007], 2)
        assert (await run_plan(gate, plan("mail.send"))).status == "completed"
        assert (await gate.call("mail.send")).ok


async def test_a_step_carries_its_own_confirmation(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([], confirmation_required=True)) as gate:
        result = await run_plan(gate, plan(PlanStep("mail.send", confirmed=True), "mail.send"))
        assert codes(result) == [None, 1010]


async def test_a_run_that_is_broken_off_has_failed_in_the_record(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyError("the caller's own mistake")

    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        with pytest.raises(KeyError):
            await run_plan(gate, plan("mail.send", "mail.send"), on_step=stop)
        [row] = rows(gate, "SELECT status, completed_steps, total_steps FROM runs")
        assert row == {"status": "failed", "completed_steps": 1, "total_steps": 2}


async def test_a_run_in_a_project_that_is_not_there_is_recorded_in_the_gate_s_own_chain(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        await projects(gate).create("elsewhere")
        for project, code in (("elsewhere", 6003), ("missing", 1017)):
            bot = agent(projects=("missing",))
            result = await run_plan(gate, plan("mail.send", "mail.send"), project=project, agent=bot)
            assert (result.status, codes(result)) == ("failed", [code])
        runs = [(row["project"], row["status"]) for row in entries(gate, "run")]
        assert runs == [("_gate", "running"), ("_gate", "failed")] * 2
        assert [row["project"] for row in entries(gate, "settled")] == ["_gate", "_gate"]
        assert [row["body"]["error"]["code"] for row in entries(gate, "settled")] == [6003, 1017]


@pytest.mark.parametrize("simulate", [False, True])
async def test_what_references_would_fill_in_is_counted_before_it_is(tmp_path: Path, simulate: bool) -> None:
    large = plan(
        PlanStep("state.set", {"path": "/large", "value": "x" * 10_000}),
        PlanStep("state.get", {"path": "/large"}, "g"),
        PlanStep("state.set", {"path": "/many", "value": ["${steps.g.data}"] * 10_000}),
    )
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        result = await run_plan(gate, large, simulate=simulate)
        assert (result.status, codes(result)) == ("failed", [None, None, 2002])
        assert "larger than 1048576 bytes" in str(result.outcomes[-1].error)


@pytest.mark.parametrize("simulate", [False, True])
async def test_a_place_of_thousands_of_digits_is_nowhere(tmp_path: Path, simulate: bool) -> None:
    odd = plan(
        PlanStep("state.set", {"path": "/list", "value": [1]}),
        PlanStep("state.get", {"path": "/list"}, "g"),
        PlanStep("state.set", {"path": "/it", "value": f"${{steps.g.data.{'9' * 5_000}}}"}),
    )
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        result = await run_plan(gate, odd, simulate=simulate)
        assert codes(result) == [None, None, 2007 if simulate else 3004]


@pytest.mark.parametrize("simulate", [False, True])
async def test_the_results_of_an_agents_run_are_bounded_together(tmp_path: Path, simulate: bool) -> None:
    steps = plan(PlanStep("state.set", {"path": "/a", "value": "x" * 2_000}), *["state.get"] * 9)
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        result = await run_plan(gate, steps, agent=agent("one"), simulate=simulate, results_bytes_max=5_000)
        assert (result.status, codes(result)) == ("failed", [None] * 3)
        assert result.problem is not None
        assert result.problem.code == 2005
        assert (await run_plan(gate, steps, simulate=simulate, results_bytes_max=5_000)).status == "completed"
