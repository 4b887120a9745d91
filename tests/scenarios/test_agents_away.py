"""Agents that are away: their outcomes wait, their calls go on, and they can take back what nobody has answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, GateError, Outcome, tool
from agent_gate.gate.mailbox import Mailbox
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.outcome import Status
from tests.gates import (
    ALLOW_ALL,
    ANNA,
    ASK_ALL,
    HandClock,
    People,
    Tool,
    a_gate,
    agent,
    approve,
    code_of,
    counter,
    deny,
    kinds_of,
    outcome_of,
    reader,
    run_elsewhere,
    sender,
    soon,
    until,
)

BOT = agent("bot")


def request(name: str = "mail.send", request_id: str | None = "r", **fields: Any) -> CallRequest:
    return CallRequest(BOT, name, fields.pop("args", {}), request_id=request_id, door="websocket", **fields)


async def held(gate: Gate, wish: CallRequest) -> tuple[asyncio.Task[Outcome], Any]:
    """A call that waits for a person, and the question about it."""
    waiting = asyncio.create_task(gate.submit(wish))
    while not (asked := await gate.ledger.questions()):  # noqa: ASYNC110 -- the question comes by another task
        await asyncio.sleep(0.002)
    return waiting, asked[0]


async def test_an_outcome_that_was_reached_while_the_agent_was_away_waits_until_it_says_that_it_has_it(
    tmp_path: Path,
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        mailbox = Mailbox(gate)
        waiting, asked = await held(gate, request())
        waiting.cancel()
        await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, acts) == (Status.SUCCESS, [""])
        assert await mailbox.results(BOT) == await mailbox.results(BOT) == [outcome]
        assert await mailbox.count(BOT) == 1
        assert await mailbox.count(agent("other")) == 0
        assert await mailbox.acknowledge(agent("other"), [asked.call_id, "r"]) == 0
        assert await mailbox.acknowledge(BOT, ["r", "nonsense"]) == 1
        assert await mailbox.results(BOT) == []


async def test_an_outcome_that_the_agent_got_does_not_wait(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        waiting, asked = await held(gate, request())
        await approve(gate, asked)
        assert (await soon(waiting)).status is Status.SUCCESS
        assert await Mailbox(gate).count(BOT) == 0


async def test_an_agent_that_does_not_wait_finds_the_outcome_in_its_mailbox(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        answer = await gate.submit(request(wait=False, request_id=None))
        assert answer.status is Status.PENDING_APPROVAL
        (asked,) = await gate.ledger.questions()
        await deny(gate, asked)
        assert (await outcome_of(gate, asked)).status is Status.DENIED
        (waiting,) = await Mailbox(gate).results(BOT)
        assert (waiting.call_id, code_of(waiting)) == (answer.call_id, 1015)


@pytest.mark.parametrize("name", ["mail.send", "note.read", "counter.add"])
async def test_an_allowed_call_that_does_not_wait_is_answered_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([]), reader([]), counter()) as gate:
        assert (await gate.submit(request(name, wait=False))).status is Status.SUCCESS
        assert await Mailbox(gate).count(BOT) == 0


async def test_an_agent_that_leaves_while_its_call_is_performed_finds_the_outcome(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool("slow", effect="write", risk="low", cost=0)
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with a_gate(tmp_path, ALLOW_ALL, slow) as gate:
        waiting = asyncio.create_task(gate.submit(request("slow")))
        await soon(begun.wait())
        waiting.cancel()
        await asyncio.sleep(0)
        go_on.set()
        mailbox = Mailbox(gate)
        async with asyncio.timeout(20):
            while not await mailbox.count(BOT):  # noqa: ASYNC110 -- the call ends in a task of its own
                await asyncio.sleep(0.002)
        (outcome,) = await mailbox.results(BOT)
        assert (outcome.status, outcome.data) == (Status.SUCCESS, "done")


async def test_a_local_call_leaves_nothing_in_a_mailbox(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([]), agent=BOT) as gate:
        outcome = await gate.call("mail.send", wait=False)
        (asked,) = await gate.ledger.questions()
        await approve(gate, asked)
        await outcome_of(gate, asked)
        assert outcome.status is Status.PENDING_APPROVAL
        assert await Mailbox(gate).count(BOT) == 0


async def test_a_call_is_taken_back_before_anybody_has_answered(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), people=people) as gate:
        waiting, asked = await held(gate, request())
        outcome = await soon(gate.withdraw(BOT, "r"))
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1020)
        assert (await soon(waiting)).call_id == outcome.call_id
        with pytest.raises(GateError):
            await approve(gate, asked)
        assert acts == []
        assert kinds_of(gate, asked.call_id) == ["held", "answered", "settled"]
        await until(lambda: people.ended == [(asked.call_id, "withdrawn", "bot")])
        assert (await gate.withdraw(BOT, "r")).call_id == outcome.call_id


async def test_only_the_agent_itself_can_take_its_call_back(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        waiting, _ = await held(gate, request())
        with pytest.raises(GateError, match="no request"):
            await gate.withdraw(agent("other"), "r")
        assert not waiting.done()
        assert len(await gate.ledger.questions()) == 1


async def test_what_is_done_cannot_be_taken_back(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        await gate.submit(request())
        assert (await gate.withdraw(BOT, "r")).status is Status.SUCCESS


HOLD_AND_DIE = """
async def main():
    async with a_gate(directory, ASK_ALL, sender([]), counter()) as gate:
        from agent_gate.model.call import CallRequest
        wish = CallRequest(agent("bot"), "{tool}", {args}, request_id="r", door="{door}", wait=False, confirmed=True)
        await gate.submit(wish)
        os._exit(0)
"""


def hold_and_die(directory: Path, args: str = "{}", door: str = "websocket") -> None:
    """A server that is gone while a person thinks."""
    run_elsewhere(directory, HOLD_AND_DIE.format(tool="mail.send", args=args, door=door))


@pytest.mark.parametrize("answer_first", [True, False])
async def test_a_server_that_starts_goes_on_with_what_its_predecessor_held(tmp_path: Path, answer_first: bool) -> None:
    hold_and_die(tmp_path, args="{'text': 'hi'}")
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        mailbox = Mailbox(gate)
        (asked,) = await gate.ledger.questions()
        if answer_first:
            await approve(gate, asked)
        assert await mailbox.take_over_held({"bot": BOT}) == 1
        assert await mailbox.take_over_held({"bot": BOT}) == 0
        if not answer_first:
            await approve(gate, asked)
        outcome = await outcome_of(gate, asked)
        assert (outcome.status, outcome.request_id, acts) == (Status.SUCCESS, "r", ["hi"])
        assert await mailbox.results(BOT) == [outcome]
        again = await gate.submit(request(args={"text": "hi"}, confirmed=True))
        assert again == outcome
        assert acts == ["hi"]


async def test_a_taken_over_question_keeps_its_deadline(tmp_path: Path) -> None:
    hold_and_die(tmp_path)
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        clock.advance(899)
        assert await Mailbox(gate).take_over_held({"bot": BOT}) == 1
        (asked,) = await gate.ledger.questions()
        clock.advance(1)
        assert (await outcome_of(gate, asked)).status is Status.EXPIRED
        assert await Mailbox(gate).count(BOT) == 1


@pytest.mark.parametrize(
    ("door", "agents"), [("", {"bot": BOT}), ("websocket", {})], ids=["a local call", "an unknown agent"]
)
async def test_what_is_not_the_server_s_to_go_on_with_stays_where_it_is(
    tmp_path: Path, door: str, agents: dict[str, Agent]
) -> None:
    hold_and_die(tmp_path, door=door)
    async with a_gate(tmp_path, ASK_ALL, sender([])) as gate:
        assert await Mailbox(gate).take_over_held(agents) == 0
        assert len(await gate.ledger.questions()) == 1


async def test_a_call_with_a_secret_cannot_be_made_again_from_the_record(tmp_path: Path) -> None:
    secret: Tool = sender([], secret=["text"])
    run_elsewhere(
        tmp_path,
        HOLD_AND_DIE.replace("sender([])", "sender([], secret=['text'])").format(
            tool="mail.send", args="{'text': 'hush'}", door="websocket"
        ),
    )
    async with a_gate(tmp_path, ASK_ALL, secret) as gate:
        assert await Mailbox(gate).take_over_held({"bot": BOT}) == 0
        assert len(await gate.ledger.questions()) == 1


async def test_a_running_server_s_calls_are_not_taken_from_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, sender([])) as first, a_gate(tmp_path, ASK_ALL, sender([])) as second:
        waiting, asked = await held(first, request())
        assert await Mailbox(second).take_over_held({"bot": BOT}) == 0
        await second.answer(asked.call_id, approve=True, by=ANNA, nonce=asked.nonce)
        assert (await soon(waiting)).status is Status.SUCCESS


async def test_a_call_in_doubt_after_a_crash_waits_for_its_agent(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        async def main():
            @tool("fatal", effect="write", risk="low", cost=0)
            async def fatal() -> None:
                os._exit(0)
            async with a_gate(directory, ALLOW_ALL, fatal) as gate:
                from agent_gate.model.call import CallRequest
                await gate.submit(CallRequest(agent("bot"), "fatal", {}, request_id="r", door="websocket"))
        """,
    )
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        (outcome,) = await Mailbox(gate).results(BOT)
        assert (outcome.status, outcome.request_id) == (Status.UNKNOWN, "r")


async def test_results_come_in_answers_of_bounded_size(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ASK_ALL, reader([])) as gate:
        mailbox, left = Mailbox(gate, results_bytes_max=1_000), {"0", "1", "2"}
        for id in sorted(left):
            await gate.submit(request("note.read", id, args={"text": id * 600}, wait=False))
        for asked in await gate.ledger.questions():
            await approve(gate, asked)
            await outcome_of(gate, asked)
        while left:
            (outcome,) = await mailbox.results(BOT)
            left.remove(outcome.request_id)
            await mailbox.acknowledge(BOT, [outcome.request_id])
