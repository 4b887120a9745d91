"""Calls that wait for a person: what is asked, who may answer, and what an answer is worth."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Approver, GateError, PolicyDeniedError, StorageError, load_policy, tool
from agent_gate.model.approval import Question
from agent_gate.model.committed import Committed
from agent_gate.model.errors import IdentityError
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.model.work import Open, Work
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding
from agent_gate.toolkit import REGISTERED, registered_tool
from tests.gates import (
    ALLOW_ALL,
    ANNA,
    ASK_ALL,
    BOB,
    QUICK_GATE,
    HandClock,
    People,
    Tool,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    deny,
    entries,
    kinds_of,
    outcome_of,
    pending,
    projects,
    reader,
    rows,
    run_elsewhere,
    sender,
    soon,
)


async def test_an_ask_answers_pending_at_once_and_changes_nothing(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), counter()) as gate:
        for name in ("mail.send", "counter.add"):
            outcome = await gate.call(name, wait=False)
            assert (outcome.status.value, outcome.to_json()["decision"]) == ("pending_approval", "ask")
            assert outcome.expires_at == gate.clock.now() + 900
            assert kinds_of(gate, outcome.call_id) == ["held"]
            assert outcome.raise_for_status() is outcome
        assert (acts, (await gate.ledger.state("default")).version) == ([], 0)


async def test_what_is_shown_is_the_bound_call(tmp_path: Path) -> None:
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender([], sensitive=["text"]), people=people) as gate:
        asked = await pending(gate, "mail.send", {"text": "hello"}, request_id="r1")
        assert await people.question() == asked
        assert (asked.tool, asked.args, asked.signatures) == ("mail.send", {"text": "hello"}, ("mail.send(hello)",))
        assert (asked.request_id, asked.agent_id, asked.sensitive) == ("r1", "local", ("text",))
        assert [dict(reason) for reason in asked.reasons] == [{"layer": "rules", "rule": "*"}]


async def test_an_approved_call_is_performed_once_and_its_result_waits_for_whoever_asks(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", {"text": "hi"}, request_id="r")
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, outcome.data, acts) == (Status.SUCCESS, {"sent": "hi"}, ["hi"])
        assert kinds_of(gate, asked.call_id) == ["held", "answered", "performing", "settled"]
        again = await gate.call("mail.send", text="hi", request_id="r")
        assert again == await gate.result(asked.call_id) == outcome
        assert acts == ["hi"]
        [logged] = rows(gate, "SELECT resolution, resolved_by, args, decision FROM audit_log")
        assert logged == {"resolution": "approved", "resolved_by": "anna", "args": '{"text":"hi"}', "decision": "ask"}
        assert rows(gate, "SELECT * FROM pending_requests") == []


async def test_an_approved_pure_call_moves_the_state_of_the_moment(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "counter.add(5)", "action": "ask"}, {"pattern": "counter.add", "action": "allow"}]}
    async with a_gate(tmp_path, policy, counter()) as gate:
        asked = await pending(gate, "counter.add", {"n": 5})
        assert (await gate.call("counter.add")).ok
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.message, outcome.state_version) == ("now 6", 2)


async def test_a_denied_call_is_not_performed_and_names_who_said_no(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), people=people) as gate:
        asked = await pending(gate, "mail.send")
        await deny(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1015, [])
        assert "anna" in str(outcome.error)
        assert people.ended == [(asked.call_id, "denied", "anna")]


async def test_who_waits_gets_the_outcome_when_a_person_has_answered(tmp_path: Path) -> None:
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), people=people) as gate:
        call = asyncio.create_task(gate.call("mail.send", text="x"))
        await approve(gate, await people.question())
        assert (await soon(call)).data == {"sent": "x"}


async def test_a_question_that_nobody_answers_expires(tmp_path: Path) -> None:
    clock, people, acts = HandClock(), People(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock, people=people, approval_timeout_s=60) as gate:
        asked = await pending(gate, "mail.send")
        clock.advance(60)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.EXPIRED, 1016, [])
        assert kinds_of(gate, asked.call_id) == ["held", "answered", "settled"]
        assert people.ended == [(asked.call_id, "expired", "")]
        [shown] = rows(gate, "SELECT status FROM tool_results")
        assert shown == {"status": "denied"}


async def test_a_late_answer_does_not_count(tmp_path: Path) -> None:
    clock, acts = HandClock(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as gate:
        asked = await pending(gate, "mail.send")
        clock.advance(900)
        with pytest.raises(GateError) as late:
            await approve(gate, asked)
        assert late.value.code in (1016, 6003)
        assert (code_of(await outcome_of(gate, asked)), acts) == (1016, [])


async def test_a_question_is_answered_once(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send")
        await deny(gate, asked)
        with pytest.raises(IdentityError):
            await approve(gate, asked, BOB)
        assert (code_of(await outcome_of(gate, asked)), acts) == (1015, [])


async def test_many_answers_at_once_count_as_one(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send")
        people = [Approver(f"person {number}") for number in range(10)]
        answers = [gate.answer(asked.call_id, approve=True, by=person, nonce=asked.nonce) for person in people]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(result is None for result in results) == 1
        assert ((await outcome_of(gate, asked)).ok, len(acts)) == (True, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "guessed"},
        {"call_id": "another"},
        {"by": Approver("bot", ("admin",))},
        {"by": Approver("anna", ("admin",))},
        {"by": Approver("eve", ("viewer",))},
    ],
    ids=["wrong nonce", "no such question", "the requester", "the requester's owner", "a role too low"],
)
async def test_an_answer_that_does_not_count_leaves_the_question_open(tmp_path: Path, change: dict[str, Any]) -> None:
    policy = {**ALLOW_ALL, "approvals": [{"min_cost": 1, "approver_role": "operator"}]}
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", agent=agent("bot", owner="anna"))
        given: dict[str, Any] = {"call_id": asked.call_id, "nonce": asked.nonce, "by": BOB} | change
        with pytest.raises(GateError) as refused:
            await gate.answer(given.pop("call_id"), approve=True, **given)
        assert (refused.value.code, acts) == (6003, [])
        await approve(gate, asked, BOB)
        assert (await outcome_of(gate, asked)).ok


async def test_an_admin_can_answer_what_an_operator_can(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "approvals": [{"min_cost": 1, "approver_role": "operator"}]}
    async with a_gate(tmp_path, policy, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await approve(gate, asked, Approver("zoe", ("admin",)))
        assert (await outcome_of(gate, asked)).ok


async def test_an_own_role_is_satisfied_by_nothing_else(tmp_path: Path) -> None:
    roles = {"roles": {"treasurer": {"max_risk": "low"}}}
    policy = {**ALLOW_ALL, **roles, "approvals": [{"min_cost": 1, "approver_role": "treasurer"}]}
    async with a_gate(tmp_path, policy, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        with pytest.raises(IdentityError):
            await approve(gate, asked, ANNA)
        await approve(gate, asked, Approver("tom", ("treasurer",)))
        assert (await outcome_of(gate, asked)).ok


async def test_two_must_agree_where_the_policy_says_two_and_they_are_two(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, policy, sender(acts), people=people) as gate:
        asked = await pending(gate, "mail.send")
        await approve(gate, asked, ANNA)
        with pytest.raises(IdentityError):
            await approve(gate, asked, ANNA)
        assert (acts, people.ended) == ([], [])
        await approve(gate, asked, BOB)
        assert (await outcome_of(gate, asked)).ok
        assert (len(acts), people.ended) == (1, [(asked.call_id, "approved", "anna, bob")])


async def test_one_no_is_enough_where_two_must_agree(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
    async with a_gate(tmp_path, policy, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await approve(gate, asked, ANNA)
        await deny(gate, asked, BOB)
        outcome = await outcome_of(gate, asked)
        assert (code_of(outcome), "bob" in str(outcome.error)) == (1015, True)


async def test_after_a_no_the_same_signature_is_denied_without_asking_until_it_has_cooled_down(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, {**ASK_ALL, "cooldown_seconds": 60}, sender([]), clock=clock) as gate:
        asked = await pending(gate, "mail.send", {"text": "a"})
        await deny(gate, asked)
        await outcome_of(gate, asked)
        again = await gate.call("mail.send", text="a", wait=False)
        assert (again.status, code_of(again)) == (Status.DENIED, 1022)
        other = await gate.call("mail.send", text="b", wait=False)
        assert other.status is Status.PENDING_APPROVAL
        clock.advance(60)
        assert (await gate.call("mail.send", text="a", wait=False)).status is Status.PENDING_APPROVAL


async def test_an_agent_has_only_so_many_open_questions_even_when_it_asks_all_at_once(tmp_path: Path) -> None:
    bot = agent(max_pending_approvals=3)
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        calls = [gate.call("mail.send", text=str(number), agent=bot, wait=False) for number in range(10)]
        outcomes = await asyncio.gather(*calls)
        held = [outcome for outcome in outcomes if outcome.status is Status.PENDING_APPROVAL]
        assert len(held) == 3
        assert {code_of(outcome) for outcome in outcomes if outcome not in held} == {1012}
        assert (await gate.call("mail.send", agent=agent("other"), wait=False)).status is Status.PENDING_APPROVAL
        found = await gate.ledger.question(held[0].call_id)
        assert found is not None
        await deny(gate, found[0])
        await outcome_of(gate, found[0])
        assert (await gate.call("mail.send", agent=bot, wait=False)).status is Status.PENDING_APPROVAL


async def test_where_nobody_can_be_asked_an_ask_is_a_deny(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([]), approvers=()) as gate:
        outcome = await gate.call("mail.send")
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert "nobody can be asked" in str(outcome.error)


def whose_target_moves(acts: list[str], target: list[str]) -> Tool:
    """A tool whose binder finds what will be touched, as paths and Home Assistant targets are."""

    @tool("lamp.switch", effect="write")
    async def switch() -> Json:
        acts.append(target[0])
        return target[0]

    async def bind(*_: object) -> Binding:
        if not target[0]:
            raise LookupError("there is no lamp")
        return Binding(("lamp.switch(kitchen)",), {"reaches": target[0]})

    setattr(switch, REGISTERED, replace(registered_tool(switch), bind=bind))
    return switch


async def test_an_approval_is_void_when_what_would_be_done_has_changed_since_it_was_shown(tmp_path: Path) -> None:
    acts: list[str] = []
    target = ["the lamp"]
    async with a_gate(tmp_path, ASK_ALL, whose_target_moves(acts, target)) as gate:
        asked = await pending(gate, "lamp.switch")
        target[0] = "the oven"
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1015, [])
        assert "changed since shown" in str(outcome.error)
        assert rows(gate, "SELECT * FROM pending_requests") == []


async def test_an_approval_is_void_also_when_the_change_shows_only_under_the_project_s_lock(tmp_path: Path) -> None:
    function, target = counter("tree.cut"), ["oak"]

    async def bind(*_: object) -> Binding:
        return Binding(("tree.cut",), {"tree": target[0]})

    async def move_first(project: str) -> Any:
        gate.ledger.state_schema = read_schema  # type: ignore[method-assign]
        await gate.call("state.set", path="x", value=1)
        target[0] = "the neighbour's oak"
        return await read_schema(project)

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    policy = {"rules": [{"pattern": "tree.cut", "action": "ask"}, {"pattern": "state.*", "action": "allow"}]}
    async with a_gate(tmp_path, policy, function) as gate:
        asked = await pending(gate, "tree.cut")
        read_schema = gate.ledger.state_schema
        gate.ledger.state_schema = move_first  # type: ignore[method-assign]
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (code_of(outcome), (await gate.ledger.state("default")).document) == (1015, {"x": 1})


async def test_binding_that_fails_after_the_approval_ends_the_call_and_its_question(tmp_path: Path) -> None:
    function = counter("tree.cut")
    there = [True]

    async def bind(*_: object) -> Binding:
        if not there[0]:
            raise RuntimeError("the tree is gone")
        return Binding(("tree.cut",))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ASK_ALL, function) as gate:
        asked = await pending(gate, "tree.cut", request_id="r")
        there[0] = False
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2003)
        assert kinds_of(gate, asked.call_id) == ["held", "answered", "settled"]
        assert await gate.call("tree.cut", request_id="r") == outcome
        assert rows(gate, "SELECT * FROM pending_requests") == []


def put_in_force(gate: Any, policy: Any) -> None:
    gate.judge = Judge(load_policy(policy))


async def test_a_policy_that_denies_by_now_wins_over_the_approval(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send")
        put_in_force(gate, {"rules": [{"pattern": "mail.*", "action": "deny"}]})
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1001, [])


async def test_a_policy_that_asks_for_more_by_now_puts_a_new_question_with_the_old_deadline(tmp_path: Path) -> None:
    acts: list[str] = []
    clock, people = HandClock(), People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock, people=people) as gate:
        asked = await pending(gate, "mail.send")
        clock.advance(100)
        put_in_force(gate, {**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "admin"}]})
        await approve(gate, asked, BOB)
        second = await people.question(2)
        assert (second.call_id, second.approver_roles) == (asked.call_id, ("admin",))
        assert second.expires_at == asked.expires_at
        assert second.nonce != asked.nonce
        with pytest.raises(IdentityError):
            await approve(gate, asked, ANNA)
        with pytest.raises(IdentityError):
            await approve(gate, second, BOB)
        assert acts == []
        await approve(gate, second, ANNA)
        assert ((await outcome_of(gate, asked)).ok, len(acts)) == (True, 1)


@pytest.mark.parametrize(
    ("before", "after", "asks_again"),
    [
        ([{"min_cost": 1}], [{"min_cost": 1, "approvers_required": 2}], True),
        ([{"min_cost": 1, "approvers_required": 2}], [{"min_cost": 1}], False),
        ([{"min_cost": 1, "approver_role": "admin"}], [{"min_cost": 1, "approver_role": "operator"}], False),
        ([{"min_cost": 1, "approver_role": "operator"}], [{"min_cost": 1, "approver_role": "admin"}], True),
        ([{"min_cost": 1}], [], False),
    ],
    ids=["larger quorum", "smaller quorum", "lower role", "higher role", "no approval needed"],
)
async def test_only_what_the_approval_does_not_cover_is_asked_again(
    tmp_path: Path, before: list[Json], after: list[Json], asks_again: bool
) -> None:
    people = People()
    zoe = Approver("zoe", ("admin", "operator"))
    async with a_gate(tmp_path, {**ALLOW_ALL, "approvals": before}, sender([]), people=people) as gate:
        asked = await pending(gate, "mail.send")
        put_in_force(gate, {**ALLOW_ALL, "approvals": after})
        await approve(gate, asked, zoe)
        if asked.approvers_required == 2:
            await approve(gate, asked, ANNA)
        if asks_again:
            second = await people.question(2)
            await approve(gate, second, zoe)
            if second.approvers_required == 2:
                await approve(gate, second, ANNA)
        assert (await outcome_of(gate, asked)).ok
        assert len(people.asked) == 1 + asks_again


async def test_a_reason_to_ask_that_was_not_shown_is_asked_about_anew(tmp_path: Path) -> None:
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), people=people) as gate:
        asked = await pending(gate, "mail.send")
        put_in_force(gate, {**ALLOW_ALL, "approvals": [{"min_cost": 1}]})
        await approve(gate, asked)
        second = await people.question(2)
        assert [reason["layer"] for reason in second.reasons] == ["approvals"]
        await approve(gate, second)
        assert (await outcome_of(gate, asked)).ok


async def test_a_second_question_about_the_same_call_is_put_however_many_are_open(tmp_path: Path) -> None:
    people, bot, function = People(), agent(max_pending_approvals=1), sender([])
    binds = []

    async def bind(*_: object) -> Binding:
        binds.append("bound")
        if len(binds) == 2:  # bound again after the yes: by now another question is open
            await pending(gate, "note.read", agent=bot)
        return Binding(("mail.send",))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ASK_ALL, function, reader([]), people=people) as gate:
        asked = await pending(gate, "mail.send", agent=bot)
        put_in_force(gate, {**ASK_ALL, "approvals": [{"min_cost": 1}]})
        await approve(gate, asked)
        again = await people.question(3)
        assert [question.tool for question in people.asked] == ["mail.send", "note.read", "mail.send"]
        await approve(gate, again)
        assert (await outcome_of(gate, asked)).ok


async def test_a_project_that_is_locked_while_a_question_is_open_stays_as_it_is(tmp_path: Path) -> None:
    acts: list[str] = []
    policy = {"rules": [{"pattern": "*", "action": "ask"}]}
    async with a_gate(tmp_path, policy, sender(acts), reader(acts), counter()) as gate:
        for name in ("mail.send", "note.read", "counter.add"):
            asked = await pending(gate, name)
            await projects(gate).lock("default")
            await approve(gate, asked)
            outcome = await outcome_of(gate, asked)
            assert (outcome.status, code_of(outcome), outcome.data) == (Status.DENIED, 1017, None)
            await projects(gate).unlock("default")
        assert (await gate.ledger.state("default")).version == 0


async def test_a_repeated_request_joins_the_wait(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", request_id="r")
        assert (await pending(gate, "mail.send", request_id="r")).call_id == asked.call_id
        waiting = [asyncio.create_task(gate.call("mail.send", request_id="r")) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        await approve(gate, asked)
        outcomes = await soon(asyncio.gather(*waiting))
        assert ([outcome.ok for outcome in outcomes], acts) == ([True] * 3, [""])


async def test_another_process_can_answer_and_can_join_the_wait(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate, a_gate(tmp_path, ASK_ALL, sender(acts)) as other:
        asked = await pending(gate, "mail.send", request_id="r")
        assert [question.call_id for question in await other.ledger.questions()] == [asked.call_id]
        joined = asyncio.create_task(other.call("mail.send", request_id="r"))
        await approve(other, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.ok, acts) == (True, [""])
        assert (await soon(joined)).call_id == asked.call_id
        assert await other.result(asked.call_id) == outcome


async def test_closing_the_gate_does_not_wait_for_people_and_leaves_their_questions_open(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), people=people) as gate:
        call = asyncio.create_task(gate.call("mail.send", request_id="r"))
        asked = await people.question()
        await soon(gate.close())
        outcome = await soon(call)
        assert (outcome.status, outcome.call_id) == (Status.PENDING_APPROVAL, asked.call_id)
        assert outcome.expires_at == asked.expires_at
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        assert [question.call_id for question in await gate.ledger.questions()] == [asked.call_id]
        assert kinds_of(gate, asked.call_id) == ["held"]
        again = await gate.call("mail.send", request_id="r", wait=False)
        assert (again.status, again.call_id, acts) == (Status.PENDING_APPROVAL, asked.call_id, [])


async def test_closing_the_gate_lets_an_approved_call_finish(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool("slow.send", effect="write")
    async def send() -> str:
        begun.set()
        await go.wait()
        return "sent"

    async with a_gate(tmp_path, ASK_ALL, send) as gate:
        asked = await pending(gate, "slow.send")
        await approve(gate, asked)
        await soon(begun.wait())
        closing = asyncio.create_task(gate.close())
        await asyncio.sleep(0)
        go.set()
        await soon(closing)
    async with a_gate(tmp_path) as gate:
        outcome = await gate.result(asked.call_id)
        assert outcome is not None
        assert outcome.data == "sent"


async def test_a_gate_that_closes_while_a_question_is_being_put_does_not_wait_for_its_answer(tmp_path: Path) -> None:
    binding, go = asyncio.Event(), asyncio.Event()
    function = sender([])

    async def bind(*_: object) -> Binding:
        binding.set()
        await go.wait()
        return Binding(("mail.send",))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ASK_ALL, function) as gate:
        call = asyncio.create_task(gate.call("mail.send"))
        await soon(binding.wait())
        closing = asyncio.create_task(gate.close())
        await asyncio.sleep(0)
        go.set()
        await soon(closing)
        assert (await soon(call)).status is Status.PENDING_APPROVAL


async def test_no_question_is_put_in_a_project_that_was_locked_meanwhile(tmp_path: Path) -> None:
    function, people = sender([]), People()

    async def bind(*_: object) -> Binding:
        await projects(gate).lock("default")
        return Binding(("mail.send",))

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ASK_ALL, function, people=people) as gate:
        outcome = await gate.call("mail.send")
        assert (outcome.status, code_of(outcome), people.asked) == (Status.DENIED, 1017, [])


async def test_held_calls_together_never_reserve_more_than_there_is(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "limits": {"budget": {"daily": 5}}}
    async with a_gate(tmp_path, policy, sender([], cost=2)) as gate:
        calls = [gate.call("mail.send", text=str(number), wait=False) for number in range(6)]
        outcomes = await asyncio.gather(*calls)
        held = [outcome for outcome in outcomes if outcome.status is Status.PENDING_APPROVAL]
        assert (len(held), {code_of(outcome) for outcome in outcomes}) == (2, {None, 1013})


async def test_an_approved_call_that_the_ledger_could_not_take_goes_on_when_it_is_made_again(tmp_path: Path) -> None:
    acts: list[str] = []

    async def failing(work: Work) -> Committed:
        if work.find(Open):
            raise StorageError("the disk is full")
        return await commit(work)

    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", request_id="r")
        commit = gate.ledger.commit
        gate.ledger.commit = failing  # type: ignore[method-assign]
        await approve(gate, asked)
        refused = await soon(gate.result(asked.call_id))
        assert refused is None or code_of(refused) == 5002
        gate.ledger.commit = commit  # type: ignore[method-assign]
        outcome = await soon(gate.call("mail.send", request_id="r"))
        assert (outcome.ok, outcome.call_id, acts) == (True, asked.call_id, [""])


LEAVES_A_QUESTION = """
async def main():
    clock = HandClock()
    policy = {"rules": [{"pattern": "*", "action": "ask"}], "limits": {"budget": {"daily": 1}}}
    async with a_gate(directory, policy, sender([]), clock=clock) as gate:
        gate.stages.holder.wait = lambda _: asyncio.Event().wait()
        question = await pending(gate, "mail.send", request_id="r")
        ANSWER
        os._exit(9)
"""
BUDGET_OF_ONE = {**ASK_ALL, "limits": {"budget": {"daily": 1}}}


async def test_an_open_question_of_a_process_that_is_gone_stays_until_its_deadline(tmp_path: Path) -> None:
    run_elsewhere(tmp_path, LEAVES_A_QUESTION.replace("ANSWER", ""))
    clock, acts = HandClock(), list[str]()
    async with a_gate(tmp_path, BUDGET_OF_ONE, sender(acts), clock=clock) as gate:
        [asked] = await gate.ledger.questions()
        assert code_of(await gate.call("mail.send", wait=False)) == 1013
    clock.advance(900)
    async with a_gate(tmp_path, BUDGET_OF_ONE, sender(acts), clock=clock) as gate:
        outcome = await gate.result(asked.call_id)
        assert outcome is not None
        assert (outcome.status, code_of(outcome)) == (Status.EXPIRED, 1016)
        assert kinds_of(gate, asked.call_id) == ["held", "answered", "settled"]
        assert rows(gate, "SELECT * FROM pending_requests") == []
        assert await gate.call("mail.send", request_id="r") == outcome
        # What was reserved for it is free again.
        assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL
    assert acts == []


async def test_a_held_call_whose_process_is_gone_goes_on_when_the_same_request_is_made_again(tmp_path: Path) -> None:
    run_elsewhere(tmp_path, LEAVES_A_QUESTION.replace("ANSWER", ""))
    clock, acts, people = HandClock(), list[str](), People()
    clock.advance(100)
    async with a_gate(tmp_path, BUDGET_OF_ONE, sender(acts), clock=clock, people=people) as gate:
        [asked] = await gate.ledger.questions()
        repeated = await gate.call("mail.send", request_id="r", wait=False)
        assert (repeated.status, repeated.call_id) == (Status.PENDING_APPROVAL, asked.call_id)
        assert (repeated.expires_at, await people.question()) == (asked.expires_at, asked)
        waiting = asyncio.create_task(gate.call("mail.send", request_id="r"))
        await approve(gate, asked)
        outcome = await soon(waiting)
        assert (outcome.ok, outcome.call_id, acts) == (True, asked.call_id, [""])
        assert kinds_of(gate, asked.call_id) == ["held", "held", "answered", "performing", "settled"]
        assert await gate.result(asked.call_id) == outcome
        assert rows(gate, "SELECT amount FROM counters WHERE scope = 'budget'") == [{"amount": 1}]


async def test_an_approval_that_nobody_was_left_to_act_on_counts_once_when_the_request_is_made_again(
    tmp_path: Path,
) -> None:
    run_elsewhere(tmp_path, LEAVES_A_QUESTION.replace("ANSWER", ""))
    acts: list[str] = []
    async with (
        a_gate(tmp_path, BUDGET_OF_ONE, sender(acts)) as one,
        a_gate(tmp_path, BUDGET_OF_ONE, sender(acts)) as two,
    ):
        [asked] = await one.ledger.questions()
        await approve(one, asked)
        calls = [gate.call("mail.send", request_id="r") for gate in (one, two, one, two)]
        outcomes = await soon(asyncio.gather(*calls))
        assert ([outcome.ok for outcome in outcomes], acts) == ([True] * 4, [""])
        assert {outcome.call_id for outcome in outcomes} == {asked.call_id}
        assert kinds_of(one, asked.call_id) == ["held", "answered", "held", "performing", "settled"]


@pytest.mark.parametrize("change", ["target", "binding", "policy"])
async def test_a_held_call_that_is_taken_over_is_judged_anew(tmp_path: Path, change: str) -> None:
    acts, target = list[str](), ["the lamp"]
    async with a_gate(tmp_path, ASK_ALL, whose_target_moves(acts, target)) as gate:
        asked = await pending(gate, "lamp.switch", request_id="r")
    policy: Any = {"rules": [{"pattern": "*", "action": "deny"}]} if change == "policy" else ASK_ALL
    target[0] = {"target": "the oven", "binding": "", "policy": "the lamp"}[change]
    async with a_gate(tmp_path, policy, whose_target_moves(acts, target)) as gate:
        outcome = await soon(gate.call("lamp.switch", request_id="r"))
        assert code_of(outcome) == {"target": 1015, "binding": 2003, "policy": 1001}[change]
        assert rows(gate, "SELECT * FROM pending_requests") == []
        assert (acts, kinds_of(gate, asked.call_id)[-1]) == ([], "settled")
        again = await gate.call("lamp.switch", request_id="r")
        assert (again.call_id, again.status, again.error) == (asked.call_id, outcome.status, outcome.error)


@pytest.mark.parametrize(("approved", "status", "code"), [("False", "denied", 1015), ("True", "expired", 1016)])
async def test_an_answer_that_nobody_was_left_to_act_on_is_settled_without_an_act(
    tmp_path: Path, approved: str, status: str, code: int
) -> None:
    answer = f"await gate.answer(question.call_id, approve={approved}, by=ANNA)"
    run_elsewhere(tmp_path, LEAVES_A_QUESTION.replace("ANSWER", answer))
    clock, acts = HandClock(), list[str]()
    clock.advance(900)
    async with a_gate(tmp_path, BUDGET_OF_ONE, sender(acts), clock=clock) as gate:
        [settled] = entries(gate, "settled")
        assert (settled["status"], settled["body"]["error"]["code"], acts) == (status, code, [])
        assert rows(gate, "SELECT * FROM pending_requests") == []


async def test_what_a_held_call_will_cost_is_reserved_while_a_person_thinks(tmp_path: Path) -> None:
    policy = {
        "rules": [{"pattern": "mail.send(ask)", "action": "ask"}, {"pattern": "mail.send", "action": "allow"}],
        "limits": {"budget": {"daily": 5}},
    }
    acts: list[str] = []
    async with a_gate(tmp_path, policy, sender(acts, cost=3)) as gate:
        asked = await pending(gate, "mail.send", {"text": "ask"})
        assert code_of(await gate.call("mail.send")) == 1013
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.ok, outcome.cost) == (True, 3)
        assert code_of(await gate.call("mail.send")) == 1013
        [spent] = rows(gate, "SELECT amount FROM counters WHERE scope = 'budget'")
        assert spent == {"amount": 3}


async def test_a_held_pure_call_is_charged_once(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "limits": {"budget": {"daily": 5}, "rate": {"per_hour": 1}}}
    async with a_gate(tmp_path, policy, counter(cost=3)) as gate:
        asked = await pending(gate, "counter.add")
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.ok, outcome.cost) == (True, 3)
        used = {row["scope"]: row["amount"] for row in rows(gate, "SELECT scope, amount FROM counters")}
        assert used == {"budget": 3, "hour": 1}


@pytest.mark.parametrize("end", ["deny", "expire", "void"])
async def test_what_was_reserved_for_a_held_call_is_released_when_it_is_not_performed(tmp_path: Path, end: str) -> None:
    clock, acts, target = HandClock(), list[str](), ["lamp"]
    policy = {**ASK_ALL, "limits": {"budget": {"daily": 1}, "rate": {"per_hour": 1}}}
    async with a_gate(tmp_path, policy, whose_target_moves(acts, target), clock=clock) as gate:
        asked = await pending(gate, "lamp.switch")
        match end:
            case "deny":
                await deny(gate, asked)
            case "expire":
                clock.advance(900)
            case _:
                target[0] = "oven"
                await approve(gate, asked)
        assert not (await outcome_of(gate, asked)).ok
        asked = await pending(gate, "lamp.switch")
        await approve(gate, asked)
        assert (await outcome_of(gate, asked)).ok


async def test_a_call_that_waited_past_its_rate_s_window_is_counted_when_it_is_performed(tmp_path: Path) -> None:
    clock = HandClock()
    policy = {**ASK_ALL, "limits": {"rate": {"per_minute": 1}}}
    async with a_gate(tmp_path, policy, sender([]), clock=clock) as gate:
        asked = await pending(gate, "mail.send")
        clock.advance(120)
        await approve(gate, asked)
        assert (await outcome_of(gate, asked)).ok
        assert code_of(await gate.call("mail.send", text="next", wait=False)) == 1012


class Broken(People):
    async def ask(self, question: Question) -> None:
        raise ConnectionError("the messenger is down")

    async def resolved(self, question: Question, resolution: str, by: str) -> None:
        raise ConnectionError("still down")


async def test_a_messenger_that_fails_takes_nothing_from_the_question(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([]), people=Broken()) as gate:
        with caplog.at_level(logging.WARNING):
            asked = await pending(gate, "mail.send")
            await approve(gate, asked)
            assert (await outcome_of(gate, asked)).ok
        assert "the messenger is down" in caplog.text


async def test_a_messenger_that_hangs_does_not_hold_up_the_agent(tmp_path: Path) -> None:
    class Hanging(People):
        async def ask(self, question: Question) -> None:
            await asyncio.Event().wait()

    bounds = replace(QUICK_GATE, notify_timeout_s=0.05)
    async with a_gate(tmp_path, ASK_ALL, sender([]), people=Hanging(), gate_bounds=bounds) as gate:
        asked = await soon(pending(gate, "mail.send"))
        await approve(gate, asked)
        assert (await outcome_of(gate, asked)).ok


async def test_approval_is_needed_from_a_cost_or_a_risk_on_unless_a_role_has_it(tmp_path: Path) -> None:
    policy = {
        **ALLOW_ALL,
        "roles": {"operator": {"max_risk": "high"}},
        "approvals": [{"min_cost": 50, "unless_role": "admin", "approver_role": "admin"}, {"risk": "high"}],
    }
    admin = agent("boss", roles=("admin",))
    tools = [sender([], "cheap", cost=49), sender([], "dear", cost=50), sender([], "risky", cost=0, risk="high")]
    async with a_gate(tmp_path, policy, *tools) as gate:
        assert (await gate.call("cheap")).ok
        assert (await pending(gate, "dear")).approver_roles == ("admin",)
        assert (await gate.call("dear", agent=admin)).ok
        assert (await pending(gate, "risky")).approver_roles == ()
        assert (await pending(gate, "risky", agent=admin)).approver_roles == ()


async def test_the_answered_entry_holds_what_the_answer_was_bound_to(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await approve(gate, asked)
        await outcome_of(gate, asked)
        [answered] = entries(gate, "answered")
        body = answered["body"]
        assert (answered["call_id"], body["bound_hash"], body["nonce"], body["policy_hash"]) == (
            asked.call_id,
            asked.bound_hash,
            asked.nonce,
            gate.judge.policy_hash,
        )
        assert (body["resolution"], body["resolved_by"]) == ("approved", "anna")


async def test_an_exception_of_a_denial_by_a_person_is_a_policy_denial(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await deny(gate, asked)
        with pytest.raises(PolicyDeniedError):
            (await outcome_of(gate, asked)).raise_for_status()


async def test_a_clock_that_is_set_back_gives_nobody_more_time(tmp_path: Path) -> None:
    clock = HandClock()
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock, approval_timeout_s=60) as gate:
        asked = await pending(gate, "mail.send")
        clock.set(clock.now() - 3_600)
        clock.advance(62)
        with pytest.raises(GateError):
            await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, code_of(outcome), acts) == (Status.EXPIRED, 1016, [])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("$.args", '{"text":"a million"}'),
        ("$.signatures", '["mail.send(nothing)"]'),
        ("$.bound_hash", '"00"'),
    ],
)
async def test_a_question_that_was_changed_in_the_database_cannot_be_approved(
    tmp_path: Path, column: str, value: str
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        asked = await pending(gate, "mail.send", {"text": "ten euros"})
        with closing(sqlite3.connect(tmp_path / "gate.db")) as intruder, intruder:
            intruder.execute("UPDATE pending_requests SET question = json_set(question, ?, json(?))", (column, value))
        with pytest.raises(GateError, match="changed since it was put"):
            await approve(gate, asked)
        assert acts == []
