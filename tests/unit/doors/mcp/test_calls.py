"""Tests of calls over MCP that wait for a person: which later call goes on with them, and which does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Agent, Gate, Outcome
from agent_gate.doors.mcp.calls import Calls
from agent_gate.gate.mailbox import Mailbox
from agent_gate.model.errors import ToolError
from agent_gate.model.outcome import Status
from tests.gates import ANNA, ASK_ALL, HandClock, a_gate, code_of, entries, rows, sender, soon, until

BOT = Agent("bot")
HELLO = {"text": "hello"}


@asynccontextmanager
async def a_door(
    directory: Path,
    acts: list[str],
    clock: HandClock | None = None,
    agent: Agent = BOT,
    wait_s: float = 20.0,
    **options: Any,
) -> AsyncIterator[Calls]:
    """Calls of one agent to a gate that asks about everything."""
    async with a_gate(directory, ASK_ALL, sender(acts), clock=clock) as gate:
        calls = Calls(gate, agent, "default", wait_s, **options)
        await calls.look_back()
        yield calls


async def call(calls: Calls, **options: Any) -> Outcome:
    return await soon(calls.call("mail.send", dict(HELLO), **options))


async def answer(gate: Gate, outcome: Outcome, *, approve: bool = True) -> None:
    await gate.answer(outcome.call_id, approve=approve, by=ANNA)


async def nothing_told(progress: float, total: float, message: str) -> None:
    """A client that follows, and does not care."""


async def test_a_repeated_call_gets_the_outcome_of_the_first_one_time(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
        assert (await call(calls)).call_id == first.call_id
        await answer(calls.gate, first)
        done = await call(calls)
        assert (done.status, done.call_id, acts) == (Status.SUCCESS, first.call_id, ["hello"])
        again = await call(calls)
        assert (again.status, again.call_id == first.call_id, acts) == (Status.PENDING_APPROVAL, False, ["hello"])


async def test_a_call_that_was_answered_with_no_is_told_so_one_time(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
        await answer(calls.gate, first, approve=False)
        assert code_of(await call(calls)) == 1015
        assert (await call(calls)).call_id != first.call_id
    assert acts == []


async def test_two_equal_calls_at_once_are_two(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        both = asyncio.gather(call(calls, progress=nothing_told), call(calls, progress=nothing_told))
        await until(lambda: len(rows(calls.gate, "SELECT call_id FROM pending_requests")) == 2)
        for row in rows(calls.gate, "SELECT call_id FROM pending_requests"):
            await calls.gate.answer(row["call_id"], approve=True, by=ANNA)
        one, other = await soon(both)
    assert (one.status, other.status, acts) == (Status.SUCCESS, Status.SUCCESS, ["hello", "hello"])
    assert one.call_id != other.call_id


async def test_other_arguments_another_tool_or_another_agent_is_another_call(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
        other = await soon(calls.call("mail.send", {"text": "other"}))
        stranger = Calls(calls.gate, Agent("clerk"), "default", 0.0)
        await stranger.look_back()
        theirs = await call(stranger)
    assert len({first.call_id, other.call_id, theirs.call_id}) == 3


async def test_after_the_deadline_the_same_call_is_a_new_one(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_door(tmp_path, [], clock) as calls:
        first = await call(calls)
        clock.advance(901)
        again = await call(calls)
    assert (again.status, again.call_id == first.call_id) == (Status.PENDING_APPROVAL, False)


async def test_a_client_that_stops_waiting_finds_its_call_again(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        waiting = asyncio.create_task(call(calls, progress=nothing_told))
        await until(lambda: rows(calls.gate, "SELECT call_id FROM pending_requests"))
        ((call_id,),) = [row.values() for row in rows(calls.gate, "SELECT call_id FROM pending_requests")]
        # Until the call is known to be held, there is nothing to find again.
        await until(lambda: call_id in calls._left_open)
        waiting.cancel()
        await asyncio.wait({waiting})
        await calls.gate.answer(call_id, approve=True, by=ANNA)
        done = await call(calls, progress=nothing_told)
    assert (done.status, done.call_id, acts) == (Status.SUCCESS, call_id, ["hello"])


async def test_a_refusal_at_the_door_uses_nothing_up(tmp_path: Path) -> None:
    acts: list[str] = []
    agent = Agent("bot", requests_per_minute=2)
    clock = HandClock()
    async with a_door(tmp_path, acts, clock, agent) as calls:
        first = await call(calls)
        await answer(calls.gate, first)
        await soon(calls.gate.result(first.call_id))
        await calls.call("mail.send", {"text": "other"})
        assert code_of(await call(calls)) == 1012
        clock.advance(60)
        assert (await call(calls)).call_id == first.call_id
    assert acts == ["hello"]


async def test_a_process_that_starts_anew_goes_on_with_open_questions(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
    async with a_door(tmp_path, acts) as calls:
        await answer(calls.gate, first)
        assert acts == []
        done = await call(calls)
    assert (done.status, done.call_id, acts) == (Status.SUCCESS, first.call_id, ["hello"])


async def test_a_process_that_starts_anew_hands_over_what_nobody_took(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
        await answer(calls.gate, first)
        await soon(calls.gate.result(first.call_id))
    async with a_door(tmp_path, acts) as calls:
        assert await Mailbox(calls.gate).count(BOT) == 1
        done = await call(calls)
        assert await Mailbox(calls.gate).count(BOT) == 0
        again = await call(calls)
    assert (done.call_id, acts) == (first.call_id, ["hello"])
    assert again.call_id != first.call_id


async def test_what_nobody_took_before_the_deadline_is_kept_no_longer(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_door(tmp_path, [], clock) as calls:
        first = await call(calls)
        await answer(calls.gate, first)
        await soon(calls.gate.result(first.call_id))
    clock.advance(901)
    async with a_door(tmp_path, [], clock) as calls:
        assert await Mailbox(calls.gate).count(BOT) == 0
        assert (await call(calls)).call_id != first.call_id


async def test_outcomes_of_other_doors_stay_where_they_are(tmp_path: Path) -> None:
    async with a_door(tmp_path, []) as calls:
        theirs = await calls.gate.call("mail.send", {"text": "ws"}, agent=BOT, wait=False)
        await answer(calls.gate, theirs)
        outcome = await soon(calls.gate.result(theirs.call_id))
        assert outcome is not None
        await Mailbox(calls.gate).keep(BOT, outcome)
    async with a_door(tmp_path, []) as calls:
        assert (await soon(calls.call("mail.send", {"text": "ws"}))).call_id != theirs.call_id
        assert await Mailbox(calls.gate).count(BOT) == 1


async def test_a_clients_own_id_names_its_call_also_in_a_later_process(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls, request_id="mine")
        await answer(calls.gate, first)
        await soon(calls.gate.result(first.call_id))
    async with a_door(tmp_path, acts) as calls:
        done = await call(calls, request_id="mine")
        assert await Mailbox(calls.gate).count(BOT) == 0
        other = await call(calls, request_id="yours")
    assert (done.call_id, done.status, acts) == (first.call_id, Status.SUCCESS, ["hello"])
    assert other.call_id != first.call_id


async def test_a_result_can_be_asked_for_by_its_call(tmp_path: Path) -> None:
    async with a_door(tmp_path, []) as calls:
        first = await call(calls)
        assert (await soon(calls.result(first.call_id))).status is Status.PENDING_APPROVAL
        await answer(calls.gate, first)
        assert (await soon(calls.result(first.call_id))).status is Status.SUCCESS
        assert (await soon(calls.result(first.call_id))).status is Status.SUCCESS
        assert (await call(calls)).call_id != first.call_id


async def test_what_is_decided_is_waited_for_also_by_a_door_that_does_not_wait_for_people(tmp_path: Path) -> None:
    async with a_door(tmp_path, [], wait_s=0.0) as calls:
        first, second = await call(calls), await soon(calls.call("mail.send", {"text": "other"}))
        for outcome in (first, second):
            await answer(calls.gate, outcome)
        assert (await call(calls)).status is Status.SUCCESS
        assert (await soon(calls.result(second.call_id))).status is Status.SUCCESS
        assert (await call(calls, progress=nothing_told)).status is Status.PENDING_APPROVAL


@pytest.mark.parametrize("call_id", ["", "nobody's", "\x00" * 500])
async def test_there_is_no_result_of_a_call_that_is_not_there(tmp_path: Path, call_id: str) -> None:
    async with a_door(tmp_path, []) as calls:
        with pytest.raises(ToolError, match="there is no call"):
            await soon(calls.result(call_id))


async def test_a_door_that_closes_answers_who_waits(tmp_path: Path) -> None:
    async with a_door(tmp_path, [], wait_s=3_600.0) as calls:
        waiting = asyncio.create_task(call(calls, progress=nothing_told))
        await until(lambda: entries(calls.gate, "held"))
        calls.ending.set()
        assert (await soon(waiting)).status is Status.PENDING_APPROVAL


async def test_a_wish_is_told_to_nobody_by_the_id_of_its_request(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with a_door(tmp_path / "one", []) as calls, a_door(tmp_path / "two", []) as others:
        one, other = calls._left_open.wish("mail.send", HELLO), others._left_open.wish("mail.send", HELLO)
    assert one != other
