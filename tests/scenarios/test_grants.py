"""Standing grants: a person's yes to exactly the same call again, for a time and a number of uses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Approver, Gate, GateError, load_policy
from agent_gate.gate.approvals import Approvals
from agent_gate.history.verify import verify
from agent_gate.model.approval import GrantTerms
from agent_gate.model.committed import Committed, StateMoved
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.model.work import UseGrant, Work
from agent_gate.policy.judge import Judge
from tests.gates import (
    ANNA,
    ASK_ALL,
    BOB,
    HandClock,
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
    sender,
)

FIVE_IN_AN_HOUR = GrantTerms()


async def grant(
    gate: Gate,
    name: str,
    args: Mapping[str, Json],
    by: Approver = ANNA,
    terms: GrantTerms = FIVE_IN_AN_HOUR,
    **options: Any,
) -> str:
    """Let one call be asked about, and answer with a grant; its id."""
    asked = await pending(gate, name, args, **options)
    await gate.answer(asked.call_id, approve=True, by=by, nonce=asked.nonce, grant=terms)
    assert (await outcome_of(gate, asked)).status is Status.SUCCESS
    (one,) = await Approvals(gate).grants()
    return one.grant_id


@pytest.mark.parametrize("name", ["mail.send", "note.read", "counter.add"])
async def test_the_same_call_passes_as_often_as_was_granted_and_then_asks_again(tmp_path: Path, name: str) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), reader(acts), counter()) as gate:
        grant_id = await grant(gate, name, {}, terms=GrantTerms(3600, 2))
        for left in (1, 0):
            outcome = await gate.call(name)
            assert outcome.status is Status.SUCCESS
            (settled,) = [row for row in entries(gate, "settled") if row["call_id"] == outcome.call_id]
            assert settled["body"]["resolution"] == "granted"
            assert settled["body"]["resolved_by"] == "anna"
            assert settled["body"]["grant_id"] == grant_id
            assert rows(gate, "SELECT uses_left FROM grants") == [{"uses_left": left}]
        assert (await gate.call(name, wait=False)).status is Status.PENDING_APPROVAL
        assert await Approvals(gate).grants() == []


async def test_a_write_that_a_grant_let_pass_says_so_before_it_acts(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        grant_id = await grant(gate, "mail.send", {"text": "hi"})
        outcome = await gate.call("mail.send", text="hi")
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
        (performing,) = [row for row in entries(gate, "performing") if row["call_id"] == outcome.call_id]
        assert performing["body"]["grant_id"] == grant_id


@pytest.mark.parametrize(
    "other",
    [
        {"args": {"text": "other"}},
        {"agent": agent("other-bot")},
        {"project": "second"},
    ],
    ids=["arguments", "agent", "project"],
)
async def test_a_grant_is_for_nothing_else(tmp_path: Path, other: dict[str, Any]) -> None:
    me = agent("local", projects=("*",))
    async with a_gate(tmp_path, ASK_ALL, sender([]), agent=me) as gate:
        await projects(gate).create("second")
        await grant(gate, "mail.send", {"text": "hi"})
        options = {"args": {"text": "hi"}} | other
        args = options.pop("args")
        assert (await gate.call("mail.send", args, wait=False, **options)).status is Status.PENDING_APPROVAL


async def test_a_grant_is_bound_to_the_values_of_sensitive_arguments_that_no_signature_shows(tmp_path: Path) -> None:
    declared: dict[str, Any] = {"unsigned": ["text"], "sensitive": ["text"]}
    async with a_gate(tmp_path, ASK_ALL, sender([], **declared)) as gate:
        await grant(gate, "mail.send", {"text": "ten euros"})
        assert (await gate.call("mail.send", text="ten euros")).status is Status.SUCCESS
        assert (await gate.call("mail.send", {"text": "a million"}, wait=False)).status is Status.PENDING_APPROVAL


async def test_a_grant_ends_with_its_time(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        await grant(gate, "mail.send", {}, terms=GrantTerms(60, 5))
        clock.advance(59)
        assert (await gate.call("mail.send")).status is Status.SUCCESS
        clock.advance(1)
        assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL


async def test_a_grant_that_is_taken_back_is_worth_nothing_and_both_are_recorded(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        approvals = Approvals(gate)
        grant_id = await grant(gate, "mail.send", {})
        await approvals.revoke(grant_id, BOB)
        assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL
        with pytest.raises(GateError, match="no grant"):
            await approvals.revoke(grant_id, BOB)
        given, revoked = entries(gate, "grant")
        assert (given["status"], given["body"]["by"], given["body"]["uses"]) == ("given", "anna", 5)
        assert (revoked["status"], revoked["body"]["by"], revoked["body"]["grant_id"]) == ("revoked", "bob", grant_id)


async def test_a_grant_never_lets_more_calls_pass_than_it_has_uses(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts), reader(acts, "note.read")) as gate:
        for name in ("mail.send", "note.read"):
            acts.clear()
            await grant(gate, name, {}, terms=GrantTerms(3600, 3))
            outcomes = await asyncio.gather(*(gate.call(name, wait=False) for _ in range(10)))
            passed = [outcome for outcome in outcomes if outcome.status is Status.SUCCESS]
            assert len(passed) == 3
            assert {outcome.status for outcome in outcomes} == {Status.SUCCESS, Status.PENDING_APPROVAL}


async def test_a_deny_of_the_policy_wins_over_a_grant(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        await grant(gate, "mail.send", {})
        gate.judge = Judge(load_policy({"rules": [{"pattern": "*", "action": "deny"}]}))
        assert code_of(await gate.call("mail.send")) == 1001


async def test_a_grant_does_not_cover_a_role_that_its_giver_lacks(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        await grant(gate, "mail.send", {}, by=BOB)
        wants_admin = {**ASK_ALL, "approvals": [{"min_cost": 1, "approver_role": "admin"}]}
        gate.judge = Judge(load_policy(wants_admin))
        assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL


async def test_what_needs_two_people_cannot_be_granted_by_one(tmp_path: Path) -> None:
    policy = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
    async with a_gate(tmp_path, policy, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        with pytest.raises(GateError, match="more than one person"):
            await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce, grant=GrantTerms())
        assert await gate.ledger.question(asked.call_id) is not None


@pytest.mark.parametrize("terms", [GrantTerms(0, 1), GrantTerms(86_401, 1), GrantTerms(60, 0), GrantTerms(60, 101)])
async def test_a_grant_has_bounds(tmp_path: Path, terms: GrantTerms) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        with pytest.raises(GateError, match="out of bounds"):
            await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce, grant=terms)
        assert await Approvals(gate).grants() == []


async def test_a_no_gives_no_grant(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await gate.answer(asked.call_id, approve=False, by=ANNA, nonce=asked.nonce, grant=GrantTerms())
        assert await Approvals(gate).grants() == []


async def test_a_no_cools_down_whatever_was_granted_before(tmp_path: Path) -> None:
    async with a_gate(tmp_path, {**ASK_ALL, "cooldown_seconds": 60}, sender([])) as gate:
        asked, other = await pending(gate, "mail.send"), await pending(gate, "mail.send")
        await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce, grant=GrantTerms())
        await outcome_of(gate, asked)
        await deny(gate, other)
        await outcome_of(gate, other)
        assert code_of(await gate.call("mail.send")) == 1022


async def test_the_chain_holds_grants_and_their_use(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([]), counter()) as gate:
        await grant(gate, "mail.send", {})
        await gate.call("mail.send")
        await Approvals(gate).revoke((await Approvals(gate).grants())[0].grant_id, ANNA)
    assert verify(tmp_path / "gate.db").ok


async def test_an_approval_is_recorded_though_a_grant_was_taken_back_while_the_state_moved(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, counter()) as gate:
        grant_id = await grant(gate, "counter.add", {})
        commit = gate.ledger.commit

        async def moving(work: Work) -> Committed:
            if work.find(UseGrant):
                gate.ledger.commit = commit  # type: ignore[method-assign]
                await Approvals(gate).revoke(grant_id, BOB)
                return StateMoved(1)
            return await commit(work)

        gate.ledger.commit = moving  # type: ignore[method-assign]
        asked = await pending(gate, "counter.add")
        await approve(gate, asked)
        assert (await outcome_of(gate, asked)).status is Status.SUCCESS
        (settled,) = [row for row in entries(gate, "settled") if row["call_id"] == asked.call_id]
        assert (settled["body"]["resolution"], settled["body"]["resolved_by"]) == ("approved", "anna")
