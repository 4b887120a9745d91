"""Simulation: what would happen, without anything happening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_gate import Gate, run_plan
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from tests.gates import (
    ALLOW_ALL,
    ASK_ALL,
    People,
    a_gate,
    agent,
    code_of,
    counter,
    projects,
    reader,
    sender,
    stored_bytes,
)


async def simulated(gate: Gate, tool_name: str, *, with_reads: bool = False, **args: Json) -> Outcome:
    outcome, _ = await gate.simulate(CallRequest(gate.agent, tool_name, args), with_reads=with_reads)
    assert outcome.simulated
    return outcome


def plan(*steps: PlanStep | str) -> Plan:
    return Plan(tuple(step if isinstance(step, PlanStep) else PlanStep(step) for step in steps))


async def test_a_simulation_writes_not_one_byte(tmp_path: Path) -> None:
    acts: list[str] = []
    effects: list[Any] = []
    tools = [sender(acts), reader(acts), counter(post_execution=effects.append)]
    steps = plan("mail.send", "note.read", "counter.add", "state.get", PlanStep("state.delete", {"path": "/x"}))
    async with a_gate(tmp_path, ALLOW_ALL, *tools) as gate:
        before = stored_bytes(gate)
        result = await run_plan(gate, steps, simulate=True, fail_fast=False)
        await simulated(gate, "nobody.knows")
        assert [outcome.status.value for outcome in result.outcomes] == ["success"] * 4 + ["error"]
        assert all(outcome.simulated for outcome in result.outcomes)
        assert (acts, effects) == ([], [])
        assert stored_bytes(gate) == before


async def test_nobody_is_asked_and_an_ask_answers_pending(tmp_path: Path) -> None:
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), people=people, approvers=()) as gate:
        outcome = await simulated(gate, "mail.send")
        assert (outcome.status, outcome.simulated) == (Status.PENDING_APPROVAL, True)
        assert (people.asked, await gate.ledger.questions()) == ([], [])


async def test_an_ask_is_pending_also_where_nobody_could_be_asked(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([]), approvers=()) as gate:
        assert (await simulated(gate, "mail.send")).status is Status.PENDING_APPROVAL


async def test_the_virtual_state_goes_from_step_to_step_and_the_real_one_stays(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(preconditions=["get(state, 'n', 0) < 3"])) as gate:
        await gate.call("counter.add")
        result = await run_plan(gate, plan("counter.add", "counter.add", "counter.add"), simulate=True)
        assert [(end.message, end.state_version) for end in result.outcomes] == [("now 2", 2), ("now 3", 3), ("", None)]
        assert [code_of(outcome) for outcome in result.outcomes] == [None, None, 1011]
        assert result.outcomes[0].state_diff == ({"op": "replace", "path": "/n", "value": 2},)
        assert (await gate.ledger.state("default")).document == {"n": 1}


async def test_reads_run_only_when_that_is_asked_for_and_writes_never(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts), reader(acts)) as gate:
        assert (await simulated(gate, "note.read", text="r")).data is None
        assert acts == []
        assert (await simulated(gate, "note.read", with_reads=True, text="r")).data == {"read": "r"}
        assert (await simulated(gate, "mail.send", with_reads=True, text="w")).ok
        assert acts == ["r"]


async def test_a_step_that_needs_a_value_nobody_has_is_unknown_and_judging_goes_on(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "*", "action": "allow"}, {"pattern": "mail.send(bad)", "action": "deny"}]}
    acts: list[str] = []
    steps = plan(
        PlanStep("mail.send", {"text": "x"}, id="sent"),
        PlanStep("note.read", {"text": "${steps.sent.data.sent}"}),
        PlanStep("mail.send", {"text": "bad"}),
    )
    async with a_gate(tmp_path, policy, sender(acts), reader(acts)) as gate:
        result = await run_plan(gate, steps, simulate=True, with_reads=True)
        assert [outcome.status.value for outcome in result.outcomes] == ["success", "unknown", "denied"]
        assert [code_of(outcome) for outcome in result.outcomes] == [None, 2007, 1001]
        assert acts == []


async def test_judging_goes_on_past_an_ask_and_what_needs_its_value_is_unknown(tmp_path: Path) -> None:
    acts: list[str] = []
    rules = [
        {"pattern": "counter.add", "action": "allow"},
        {"pattern": "mail.send(ask)", "action": "ask"},
        {"pattern": "mail.send(bad)", "action": "deny"},
    ]
    steps = plan(
        PlanStep("mail.send", {"text": "ask"}, id="sent"),
        PlanStep("mail.send", {"text": "${steps.sent.data.sent}"}),
        "counter.add",
        PlanStep("mail.send", {"text": "bad"}),
        "counter.add",
    )
    async with a_gate(tmp_path, {"rules": rules}, sender(acts), counter()) as gate:
        result = await run_plan(gate, steps, simulate=True)
        statuses = [outcome.status.value for outcome in result.outcomes]
        assert (result.status, statuses) == ("failed", ["pending_approval", "unknown", "success", "denied"])
        assert (acts, await gate.ledger.questions()) == ([], [])


async def test_a_step_that_would_be_asked_for_uses_up_what_later_ones_need(tmp_path: Path) -> None:
    limits = {"limits": {"budget": {"daily": 5}}}
    async with a_gate(tmp_path, {**ASK_ALL, **limits}, sender([], cost=3)) as gate:
        result = await run_plan(gate, plan("mail.send", "mail.send"), simulate=True)
        assert [code_of(outcome) for outcome in result.outcomes] == [None, 1013]


async def test_a_read_that_was_really_done_gives_its_value_to_later_steps(tmp_path: Path) -> None:
    acts: list[str] = []
    steps = plan(
        PlanStep("note.read", {"text": "a"}, id="note"), PlanStep("note.read", {"text": "${steps.note.data.read}b"})
    )
    async with a_gate(tmp_path, ALLOW_ALL, reader(acts)) as gate:
        result = await run_plan(gate, steps, simulate=True, with_reads=True)
        assert (result.status, acts) == ("completed", ["a", "ab"])


async def test_what_earlier_steps_would_use_up_is_missing_for_later_ones(tmp_path: Path) -> None:
    limits = {"limits": {"budget": {"daily": 5}}, "max_calls_per_tool": 2}
    async with a_gate(tmp_path, {**ALLOW_ALL, **limits}, sender([], cost=3), reader([])) as gate:
        result = await run_plan(gate, plan("mail.send", "mail.send"), simulate=True)
        assert [code_of(outcome) for outcome in result.outcomes] == [None, 1013]
        result = await run_plan(gate, plan("note.read", "note.read", "note.read"), simulate=True)
        assert [code_of(outcome) for outcome in result.outcomes] == [None, None, 1007]
        assert (await gate.call("mail.send")).ok


async def test_a_simulation_is_refused_where_the_call_would_be(tmp_path: Path) -> None:
    async with a_gate(tmp_path, {**ALLOW_ALL, "limits": {"steps": {"assisted": 1}}}, counter()) as gate:
        result = await run_plan(gate, plan("counter.add", "counter.add"), simulate=True, mode="assisted")
        assert result.problem is not None
        assert result.problem.code == 1018
        assert code_of(await simulated(gate, "counter.add", n="three")) == 2002
        await projects(gate).lock("default")
        assert code_of(await simulated(gate, "counter.add")) == 1017


async def test_a_simulation_counts_against_the_agent_s_rate(tmp_path: Path) -> None:
    bot = agent(requests_per_minute=1)
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=bot) as gate:
        assert (await simulated(gate, "counter.add")).ok
        assert code_of(await simulated(gate, "counter.add")) == 1012


async def test_a_transition_that_fails_in_a_simulation_leaves_the_virtual_state(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        await projects(gate).create("home", {"n": 1}, {"properties": {"n": {"maximum": 2}}})
        steps = plan("counter.add", "counter.add", "state.get")
        result = await run_plan(
            gate, steps, simulate=True, fail_fast=False, project="home", agent=agent(projects=("home",))
        )
        assert [code_of(outcome) for outcome in result.outcomes] == [None, 2003, None]
        assert result.outcomes[2].data == {"n": 2}
