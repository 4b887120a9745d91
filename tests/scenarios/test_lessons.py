"""Mistakes that others made with calls, approvals and policies, each as the behaviour that is right.

What needs a channel (buttons, messages, sockets) is tested where that channel is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_gate import Approver, ConfigError, GateError, load_policy, run_plan, tool, transition, validate_args
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.policy.judge import Judge
from agent_gate.system.clock import RandomIds
from agent_gate.tools.check import check_call
from tests.gates import (
    ALLOW_ALL,
    ASK_ALL,
    NOON,
    HandClock,
    People,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    deny,
    entries,
    outcome_of,
    pending,
    projects,
    reader,
    rows,
    sender,
    soon,
)

# Approval and exactly-once


async def test_an_approval_given_while_the_agent_is_away_runs_the_action_once(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), people=people) as gate:
        caller = asyncio.create_task(gate.call("mail.send", text="x", request_id="r"))
        asked = await people.question()
        caller.cancel()
        await asyncio.wait({caller})
        await approve(gate, asked)
        back = [gate.call("mail.send", text="x", request_id="r") for _ in range(3)]
        outcomes = await soon(asyncio.gather(*back))
        assert ([outcome.data for outcome in outcomes], acts) == ([{"sent": "x"}] * 3, ["x"])


async def test_after_a_restart_an_old_question_is_open_with_its_old_deadline_and_no_answer_is_lost(
    tmp_path: Path,
) -> None:
    clock, acts = HandClock(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        asked = await pending(gate, "mail.send", request_id="r")
    clock.advance(60)
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        assert await gate.ledger.questions() == [asked]
        await approve(gate, asked)
        assert ((await soon(gate.call("mail.send", request_id="r"))).ok, acts) == (True, [""])
        with pytest.raises(GateError):
            await approve(gate, asked)


async def test_after_a_restart_an_old_answer_that_came_too_late_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    clock, acts = HandClock(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        asked = await pending(gate, "mail.send", request_id="r")
    clock.advance(900)
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        with pytest.raises(GateError):
            await approve(gate, asked)
        outcome = await gate.call("mail.send", request_id="r")
        assert (outcome.status, acts) == (Status.EXPIRED, [])


async def test_what_was_decided_while_the_agent_was_away_is_found_by_its_own_request_id(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = {name: await pending(gate, "mail.send", {"text": name}, request_id=name) for name in ("a", "b")}
        await deny(gate, asked["a"])
        await approve(gate, asked["b"])
        for question in asked.values():
            await outcome_of(gate, question)
        assert code_of(await gate.call("mail.send", text="a", request_id="a")) == 1015
        assert (await gate.call("mail.send", text="b", request_id="b")).data == {"sent": "b"}


async def test_what_is_judged_is_what_is_shown_performed_and_recorded(tmp_path: Path) -> None:
    given = {"text": "a (b), c*%"}
    acts: list[str] = []
    signature = "mail.send(a %28b%29%2C c%2A%25)"
    policy = {"rules": [{"pattern": signature, "action": "ask"}], "boundary": "deny_by_default"}
    async with a_gate(tmp_path, policy, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", given)
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (asked.args, asked.signatures, acts) == (given, (signature,), [given["text"]])
        assert outcome.signatures == (signature,)
        told = [row for row in entries(gate) if row["call_id"] == asked.call_id]
        assert {row["signature"] for row in told} == {signature}
        assert {tuple(row["body"]["signatures"]) for row in told} == {(signature,)}
        assert {row["body"]["bound_hash"] for row in told if "bound_hash" in row["body"]} == {asked.bound_hash}
        assert rows(gate, "SELECT signature FROM audit_log") == [{"signature": signature}]


async def test_every_argument_is_shown_also_one_whose_text_is_part_of_the_signature(tmp_path: Path) -> None:
    @tool("move", effect="write", unsigned=["note"])
    async def move(from_: str, to: str, note: str = "") -> None: ...

    async with a_gate(tmp_path, ASK_ALL, move) as gate:
        args = {"from_": "a", "to": "ab", "note": "a"}
        assert (await pending(gate, "move", args)).args == args


async def test_an_agent_s_own_confirmation_is_no_approval_and_nobody_approves_a_call_of_their_own(
    tmp_path: Path,
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", confirmed=True, agent=agent("bot", owner="olga"))
        for own in ("bot", "olga"):
            with pytest.raises(GateError):
                await approve(gate, asked, Approver(own, ("admin",)))
        assert acts == []


async def test_one_approval_is_good_for_one_performance(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", {"text": "x"})
        await approve(gate, asked)
        await outcome_of(gate, asked)
        again = await gate.call("mail.send", text="x", wait=False)
        assert (again.status, acts) == (Status.PENDING_APPROVAL, ["x"])


async def test_people_are_not_flooded_with_questions_nor_asked_again_right_after_a_no(tmp_path: Path) -> None:
    people = People()
    bot = agent(max_pending_approvals=2)
    async with a_gate(tmp_path, {**ASK_ALL, "cooldown_seconds": 60}, sender([]), people=people, agent=bot) as gate:
        asked = await pending(gate, "mail.send", {"text": "0"})
        await deny(gate, asked)
        await outcome_of(gate, asked)
        codes = [code_of(await gate.call("mail.send", text=text, wait=False)) for text in "0123"]
        assert codes == [1022, None, None, 1012]
        assert len(people.asked) == 3


# Permission and policy


@pytest.mark.parametrize(
    "args",
    [
        {"domain": "lock", "service": "unlock", "entity_id": "lock.front"},
        {"domain": "homeassistant", "service": "turn_off", "entity_id": "lock.front"},
        {"domain": "homeassistant", "service": "turn_off", "entity_id": ["light.a", "lock.front"]},
        {"domain": "lock", "service": "unlock", "target": {"entity_id": ["lock.front"]}},
        {"domain": "lock", "service": "unlock", "target": {"area_id": "hall"}},
        {"domain": "homeassistant", "service": "turn_off", "target": {"label_id": "doors"}},
        {"domain": "lock", "service": "unlock", "entity_id": "all"},
        {"domain": "light", "service": "turn_on", "entity_id": ["light.a", "LOCK.front"]},
        {"domain": "light", "service": "turn_on", "entity_id": ["light.a", 7]},
    ],
)
def test_a_deny_on_locks_is_not_side_stepped_by_another_domain_a_list_or_an_area(args: Mapping[str, Json]) -> None:
    policy = {"rules": [{"pattern": "ha_call_service(lock.*)", "action": "deny"}, *_rules(ALLOW_ALL)]}
    checked = check_call(Judge(load_policy(policy)), "ha_call_service", args, at=NOON)
    assert checked.outcome.decision is Decision.DENY


def _rules(policy: Mapping[str, Json]) -> list[Json]:
    return list(policy["rules"])


@pytest.mark.parametrize("args", [{}, {"to": None}, {"to": "x", "other": 1}, {"to": ["x"]}])
async def test_a_call_with_missing_or_wrong_arguments_gets_its_one_answer(
    tmp_path: Path, args: dict[str, Json]
) -> None:
    @tool("send.to", effect="write")
    async def send(to: str) -> None: ...

    async with a_gate(tmp_path, ALLOW_ALL, send) as gate:
        outcome = await soon(gate.call("send.to", args, request_id="r"))
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2002)
        assert await gate.call("send.to", args, request_id="r") == outcome


async def test_only_what_enters_a_signature_is_restricted(tmp_path: Path) -> None:
    template = "{{ states('light.a') | map(x, y)[0] }} *?"

    @tool("render", effect="read", cost=0, risk="low", unsigned=["template"], identifiers=["name"])
    async def render(name: str, template: str) -> str:
        return template

    async with a_gate(tmp_path, ALLOW_ALL, render) as gate:
        outcome = await gate.call("render", name="greeting", template=template)
        assert (outcome.data, outcome.signatures) == (template, ("render(greeting)",))
        assert code_of(await gate.call("render", name="a(b)", template="")) == 2002


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": [{"pattern": "*", "action": "deny", "when": "inputs['missing']"}, *_rules(ALLOW_ALL)]},
        {"rules": [{"pattern": "*", "action": "allow", "when": "1 / 0 == 1"}]},
        {"defaults": [{"pattern": "*", "action": "allow", "when": "state['missing']"}]},
        {"rules": _rules(ALLOW_ALL), "declare": {"*": {"preconditions": ["hour < 'x'"]}}},
    ],
)
async def test_a_condition_that_cannot_be_judged_denies(tmp_path: Path, policy: Mapping[str, Json]) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts)) as gate:
        outcome = await gate.call("mail.send", wait=False)
        assert (outcome.status, acts) == (Status.DENIED, [])


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": [{"patern": "*", "action": "deny"}]},
        {"rules": [{"pattern": "*", "action": "alow"}]},
        {"boundary": "deny"},
        {"limits": {"rate": {"per_second": 1}}},
        {"approvals": [{"approver_role": "admin"}]},
        {"rules": [{"pattern": "*", "action": "allow", "when": "().__class__.__base__.__subclasses__()"}]},
        {"rules": [{"pattern": "*", "action": "allow", "when": "user == 'anna'"}]},
        {"colour": "blue"},
        {},
    ],
)
def test_a_typo_in_a_policy_is_an_error_and_never_an_allow(policy: Mapping[str, Json]) -> None:
    if policy:
        with pytest.raises(ConfigError):
            load_policy(policy)
    else:
        checked = check_call(Judge(load_policy({"version": 1})), "t", {}, at=NOON)
        assert checked.outcome.decision is Decision.ASK


@pytest.mark.parametrize("entity", ["light.a\n", "light.a\x00", "Light.a", "light.*", "light.a light.b", " light.a"])
def test_an_identifier_is_matched_to_its_very_end(entity: str) -> None:
    with pytest.raises(ValueError, match="entity_id"):
        validate_args("ha_get_state", {"entity_id": entity})


async def test_a_pure_handler_cannot_change_the_state_but_by_returning_it(tmp_path: Path) -> None:
    @transition("peek")
    def peek(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        before = {"kept": list(state["kept"])}
        state["kept"].clear()
        inputs.clear()
        return before, "looked"

    async with a_gate(tmp_path, ALLOW_ALL, peek) as gate:
        await gate.call("state.set", path="kept", value=[1, 2])
        outcome = await gate.call("peek", path="kept")
        assert (outcome.state_diff, (await gate.ledger.state("default")).document) == ((), {"kept": [1, 2]})


async def test_a_revert_is_judged_like_any_call_with_its_role_and_its_project(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter(), agent=agent(projects=("*",))) as gate:
        await projects(gate).create("home")
        done = await gate.call("counter.add", project="home")
        assert code_of(await gate.call("gate.revert", call_id=done.call_id, project="home")) == 1009
        viewer = agent("eve", roles=("viewer",))
        assert code_of(await gate.call("state.revert", snapshot_id=done.snapshot_id, agent=viewer)) == 2002
        assert code_of(await gate.call("state.revert", snapshot_id=done.snapshot_id)) == 2002
        assert (await gate.ledger.state("home")).document == {"n": 1}


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ({"limits": {"rate": {"per_minute": 1}}}, 1012),
        ({"limits": {"rate": {"per_hour": 1}}}, 1012),
        ({"limits": {"budget": {"daily": 1}}}, 1013),
        ({"limits": {"steps": {"assisted": 1}}}, 1018),
        ({"max_calls_per_tool": 1}, 1007),
        ({"global_timeout_seconds": 1}, 1008),
        ({"windows": {"allowed": [{"days": ["sun"]}]}}, 1014),
        ({"roles": {"operator": {"max_risk": "low"}}}, 1009),
        ({"declare": {"mail.*": {"confirmation_required": True}}}, 1010),
        ({"declare": {"mail.*": {"preconditions": ["get(state, 'ready', False)"]}}}, 1011),
        ({"declare": {"mail.*": {"required_roles": ["admin"]}}}, 1009),
        ({"declare": {"mail.*": {"risk": "high"}}}, 1009),
        ({"declare": {"mail.*": {"cost": 9}}, "limits": {"budget": {"daily": 8}}}, 1013),
    ],
    ids=str,
)
async def test_every_limit_that_a_policy_may_name_is_enforced(
    tmp_path: Path, field: Mapping[str, Json], code: int
) -> None:
    clock = HandClock()

    @tool("mail.send", effect="write")
    async def send() -> None:
        clock.advance(2)

    steps = Plan((PlanStep("mail.send"), PlanStep("mail.send")))
    async with a_gate(tmp_path, {**ALLOW_ALL, **field}, send, clock=clock) as gate:
        result = await run_plan(gate, steps, mode="assisted")
        problems = [outcome.error for outcome in result.outcomes] + [result.problem]
        assert code in [problem.code for problem in problems if problem]
    async with a_gate(tmp_path, ALLOW_ALL, send, name="free.db") as gate:
        assert (await run_plan(gate, steps, mode="assisted")).status == "completed"


# Ledger, as far as a call sees it


async def test_a_process_that_starts_leaves_alone_what_another_is_working_on(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool("slow.send", effect="write")
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "sent"

    policy = {"rules": [{"pattern": "slow.*", "action": "allow"}, {"pattern": "*", "action": "ask"}]}
    async with a_gate(tmp_path, policy, slow, sender([])) as gate:
        call = asyncio.create_task(gate.call("slow.send"))
        asked = await pending(gate, "mail.send", request_id="r")
        await soon(begun.wait())
        async with a_gate(tmp_path, policy, slow, sender([])) as other:
            assert entries(other, "settled") == []
            assert (await other.call("mail.send", request_id="r", wait=False)).call_id == asked.call_id
            assert [row["kind"] for row in entries(other) if row["call_id"] == asked.call_id] == ["held"]
        go.set()
        assert (await soon(call)).data == "sent"


async def test_a_step_that_timed_out_is_recorded_and_its_run_has_failed(tmp_path: Path) -> None:
    @tool("endless", effect="write", timeout_s=0.02)
    async def endless() -> None:
        await asyncio.Event().wait()

    async with a_gate(tmp_path, ALLOW_ALL, endless) as gate:
        await run_plan(gate, Plan((PlanStep("endless"),)))
        assert rows(gate, "SELECT status, failed_steps FROM runs") == [{"status": "failed", "failed_steps": 1}]
        assert rows(gate, "SELECT status FROM tool_results") == [{"status": "error"}]


def test_ids_do_not_collide_and_sort_by_time() -> None:
    ids = RandomIds()
    made = [ids.new() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert {len(id) for id in made} == {26}
    assert [id[:10] for id in made] == sorted(id[:10] for id in made)


async def test_equal_request_ids_of_two_agents_are_two_requests(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, reader(acts)) as gate:
        ends = [await gate.call("note.read", text=name, request_id="1", agent=agent(name)) for name in ("one", "two")]
        assert ([end.data for end in ends], acts) == ([{"read": "one"}, {"read": "two"}], ["one", "two"])
