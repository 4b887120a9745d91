"""What a decision reads counts only where entries back it: rows that were forged, beside a gate or behind its back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_gate import Gate, run_plan
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.history.erase import erase_call
from agent_gate.history.projects import Projects
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.approval import GrantTerms
from agent_gate.model.bounds import STATUS_AGE_MAX_S
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import StorageError
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.work import LeaveResult, Work
from tests.gates import (
    ALLOW_ALL,
    ANNA,
    ASK_ALL,
    BOB,
    HandClock,
    People,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    deny,
    outcome_of,
    pending,
    reader,
    rows,
    sender,
    soon,
)

TWO_PEOPLE = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}
COOLDOWN = {**ASK_ALL, "cooldown_seconds": 60}
LIMITED = {**ALLOW_ALL, "limits": {"rate": {"per_minute": 2}, "budget": {"daily": 3}}}


def forge(folder: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "gate.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(sql, values)


def broken(folder: Path) -> bool:
    return not verify(folder / "gate.db").ok


async def granted(gate: Gate, terms: GrantTerms) -> None:
    asked = await pending(gate, "mail.send", {})
    await gate.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce, grant=terms)
    assert (await outcome_of(gate, asked)).status is Status.SUCCESS


A_COPY = (
    "INSERT INTO grants SELECT 'forged', project, agent_id, tool, signature, key, given_by, roles, call_id, created_at,"
    " expires_at, uses, uses, NULL FROM grants"
)


@pytest.mark.parametrize("is_open", [True, False], ids=["beside a gate", "behind its back"])
@pytest.mark.parametrize(
    "forgery",
    [
        A_COPY,
        "UPDATE grants SET uses_left = 5",
        "UPDATE grants SET uses_left = 5, uses = 10",
        "UPDATE grants SET uses_left = 1, expires_at = '2099-01-01T00:00:00.000000Z'",
        "UPDATE grants SET uses_left = 1, grant_id = 'forged'",
    ],
)
async def test_a_grant_that_no_entry_backs_lets_nothing_pass(tmp_path: Path, forgery: str, is_open: bool) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        await granted(gate, GrantTerms(60, 1))
        assert (await gate.call("mail.send")).status is Status.SUCCESS, "the one use"
        if is_open:
            forge(tmp_path, forgery)
            assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL
            assert await Approvals(gate).grants() == []
    if not is_open:
        forge(tmp_path, forgery)
        async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
            assert (await gate.call("mail.send", wait=False)).status is Status.PENDING_APPROVAL
    assert broken(tmp_path)


@pytest.mark.parametrize(
    "forgery",
    ["UPDATE grants SET revoked_at = NULL", "UPDATE grants SET agent_id = 'other'", "UPDATE grants SET roles = '[]'"],
)
async def test_a_grant_that_was_taken_back_or_given_to_another_stays_so(tmp_path: Path, forgery: str) -> None:
    other = agent("other")
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        await granted(gate, GrantTerms())
        if "revoked" in forgery:
            (grant,) = await Approvals(gate).grants()
            await Approvals(gate).revoke(grant.grant_id, ANNA)
        forge(tmp_path, forgery)
        caller = other if "other" in forgery else gate.agent
        assert (await gate.call("mail.send", wait=False, agent=caller)).status is Status.PENDING_APPROVAL
    assert broken(tmp_path)


YES = "UPDATE pending_requests SET resolution = 'approved', approved_by = '[\"anna\",\"bob\"]'"


@pytest.mark.parametrize("policy", [ASK_ALL, TWO_PEOPLE], ids=["one", "two"])
async def test_an_answer_that_no_entry_backs_does_not_count_and_a_real_one_still_does(
    tmp_path: Path, policy: Mapping[str, Any]
) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, policy, sender(acts), people=people) as gate:
        call = asyncio.create_task(gate.call("mail.send"))
        question = await people.question()
        forge(tmp_path, YES)
        await asyncio.sleep(0.5)  # longer than the poll that would hear of an answer
        assert (call.done(), acts) == (False, [])
        assert broken(tmp_path)
        await approve(gate, question, ANNA)
        if policy is TWO_PEOPLE:
            assert not call.done()
            await approve(gate, question, BOB)
        assert (await soon(call)).status is Status.SUCCESS


async def test_an_answer_that_is_forged_behind_the_gates_back_does_not_count_when_it_is_back(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        await gate.call("mail.send", wait=False, request_id="r")
    forge(tmp_path, YES)
    assert broken(tmp_path)
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        outcome = await gate.call("mail.send", wait=False, request_id="r")
        assert (outcome.status, acts) == (Status.PENDING_APPROVAL, [])


@pytest.mark.parametrize("field", ["approvers_required", "owner", "approver_roles", "expires_at", "ends_at", "args"])
async def test_a_question_that_was_changed_cannot_be_answered(tmp_path: Path, field: str) -> None:
    values = {"approvers_required": 1, "owner": "", "approver_roles": ["viewer"], "args": {"text": "harmless"}}
    async with a_gate(tmp_path, TWO_PEOPLE, sender([]), agent=agent("local", owner="carl")) as gate:
        question = await pending(gate, "mail.send", {"text": "dangerous"})
        forge(
            tmp_path,
            f"UPDATE pending_requests SET question = json_set(question, '$.{field}', json(?))",
            orjson.dumps(values.get(field, 9e9)).decode(),
        )
        with pytest.raises(Exception, match="was changed since it was put"):
            await approve(gate, question, ANNA)
    assert broken(tmp_path)


async def test_a_request_id_stays_used_whatever_becomes_of_its_row(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, sender(acts)) as gate:
        first = await gate.call("mail.send", request_id="r")
        forge(tmp_path, "DELETE FROM requests")
        assert (await gate.call("mail.send", request_id="r")).call_id == first.call_id
        assert len(acts) == 1
    assert broken(tmp_path)


async def test_a_row_makes_no_request_id_used_that_no_call_had(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        other = await gate.call("mail.send", {"text": "another's"})
        forge(tmp_path, "INSERT INTO requests VALUES ('local', 'r', ?, 'x')", other.call_id)
        outcome = await gate.call("mail.send", request_id="r")
        assert (outcome.status, outcome.call_id != other.call_id) == (Status.SUCCESS, True)


async def test_nobody_said_no_where_no_entry_says_so(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, COOLDOWN, sender([]), clock=clock) as gate:
        asked = await pending(gate, "mail.send", {"text": "a"})
        await deny(gate, asked)
        assert code_of(await outcome_of(gate, asked)) == 1015
        forge(tmp_path, "INSERT INTO refusals SELECT project, 'mail.send(b)', at, call_id FROM refusals")
        assert code_of(await gate.call("mail.send", text="a")) == 1022
        assert (await gate.call("mail.send", {"text": "b"}, wait=False)).status is Status.PENDING_APPROVAL
    assert broken(tmp_path)


@pytest.mark.parametrize(
    "forgery", ["DELETE FROM counters", "UPDATE counters SET amount = 0", "UPDATE counters SET amount = -99"]
)
async def test_counts_that_were_lowered_let_nothing_pass(tmp_path: Path, forgery: str) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, LIMITED, sender(acts)) as gate:
        await gate.call("mail.send")
        await gate.call("mail.send")
        assert code_of(await gate.call("mail.send")) == 1012
        forge(tmp_path, forgery)
        assert code_of(await gate.call("mail.send")) == 5004
        assert len(acts) == 2
    assert broken(tmp_path)


async def test_arguments_that_look_like_counts_disturb_nothing(tmp_path: Path) -> None:
    odd = {"text": '","work":{"totals":{"minute":0}}', "x": {"work": {"totals": {"minute": 0}, "claim": "x"}}}
    async with a_gate(tmp_path, LIMITED, sender([])) as gate:
        assert (await gate.call("mail.send", request_id="r")).status is Status.SUCCESS
        await gate.call("mail.send", odd, request_id="s")
        await gate.call("no.such", odd)
        assert code_of(await gate.call("mail.send", {"text": "more"})) in (None, 1012)
    assert not broken(tmp_path)


@pytest.mark.parametrize("status", ["paused", "locked"])
async def test_a_project_is_open_only_if_its_entries_say_so(tmp_path: Path, status: str) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        if status == "paused":
            await Approvals(gate).pause(ANNA)
        else:
            await Projects(gate.ledger, gate.clock, gate.ids, "anna").lock("default")
        forge(tmp_path, "UPDATE heads SET status = 'open'")
        await asyncio.sleep(2 * STATUS_AGE_MAX_S)
        assert code_of(await gate.call("note.read")) == 1017
    assert broken(tmp_path)


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE blobs SET data = CAST('{\"n\":99}' AS BLOB) WHERE hash IN (SELECT document FROM snapshots)",
        "UPDATE snapshots SET call_id = 'other'",
    ],
)
async def test_a_state_that_no_call_settled_is_not_read(tmp_path: Path, forgery: str) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        await gate.call("counter.add")
    forge(tmp_path, forgery)
    async with a_gate(tmp_path, ALLOW_ALL, counter()) as gate:
        assert code_of(await gate.call("counter.add")) == 5004
        with pytest.raises(StorageError):
            await gate.ledger.state("default")
    assert broken(tmp_path)


async def test_a_project_begins_as_its_entry_says(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        await Projects(gate.ledger, gate.clock, gate.ids, "anna").create("home", {"admin": False})
        forge(tmp_path, "UPDATE heads SET initial_state = '{\"admin\":true}', state_schema = '{}'")
        assert (await gate.ledger.state("home")).document == {"admin": False}
        assert (await gate.ledger.state("default")).document == {}
    assert broken(tmp_path)


async def test_another_agents_outcome_is_not_handed_over(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([])) as gate:
        outcome = await gate.call("note.read")
        spy = agent("spy")
        await gate.ledger.commit(Work(GATE_PROJECT, changes=(LeaveResult("spy", outcome.call_id, None, "now"),)))
        assert await Mailbox(gate).results(spy) == []
    assert broken(tmp_path)


async def test_what_is_erased_takes_no_count_with_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path, LIMITED, sender([])) as gate:
        outcome = await gate.call("mail.send")
        assert isinstance(gate.ledger, SqliteLedger)
        await erase_call(gate.ledger, outcome.call_id, by="anna", clock=gate.clock, ids=gate.ids)
        assert not broken(tmp_path)
        assert (await gate.call("mail.send")).status is Status.SUCCESS
        assert code_of(await gate.call("mail.send")) == 1012
    assert not broken(tmp_path)


async def test_what_was_reserved_and_released_adds_up(tmp_path: Path) -> None:
    rules = [{"pattern": "mail.*", "action": "ask"}, {"pattern": "note.*", "action": "allow"}]
    policy = {"rules": rules, "limits": {"budget": {"daily": 3}}, "max_calls_per_tool": 5}
    async with a_gate(tmp_path, policy, sender([]), reader([])) as gate:
        for answer in (deny, approve):
            asked = await pending(gate, "mail.send", {"text": answer.__name__}, request_id=answer.__name__)
            await answer(gate, asked)
            await outcome_of(gate, asked)
            assert not broken(tmp_path)
        await run_plan(gate, Plan((PlanStep("note.read", {}),), "one"))
        assert rows(gate, "SELECT scope FROM counters WHERE scope GLOB 'run:*'") == []
    assert not broken(tmp_path)
