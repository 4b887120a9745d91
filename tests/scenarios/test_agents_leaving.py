"""Calls that go their way in the task of a door: what becomes of their outcomes when the agent goes at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, tool
from agent_gate.gate.mailbox import Mailbox
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.call import CallRequest, Presence
from agent_gate.model.committed import Committed
from agent_gate.model.outcome import Status
from agent_gate.model.work import Work
from tests.gates import ALLOW_ALL, ANNA, ASK_ALL, a_gate, agent, counter, reader, sender, soon

BOT = agent("bot")


def request(presence: Presence, name: str = "mail.send", request_id: str | None = "r", **fields: Any) -> CallRequest:
    return CallRequest(
        BOT, name, fields.pop("args", {}), request_id=request_id, door="websocket", presence=presence, **fields
    )


async def question(gate: Gate) -> Any:
    async with asyncio.timeout(20):
        while not (asked := await gate.ledger.questions()):  # noqa: ASYNC110 -- the question comes by another task
            await asyncio.sleep(0.002)
    return asked[0]


async def waiting(gate: Gate, count: int) -> list[Outcome]:
    mailbox = Mailbox(gate)
    async with asyncio.timeout(20):
        while await mailbox.count(BOT) != count:  # noqa: ASYNC110 -- left by another task
            await asyncio.sleep(0.002)
    return await mailbox.results(BOT)


@pytest.mark.parametrize("name", ["mail.send", "note.read", "counter.add"])
@pytest.mark.parametrize("nth", [1, 2])
async def test_an_agent_that_goes_while_something_is_committed_finds_the_outcome_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
) -> None:
    presence, commits, acts = Presence(), list[Work](), list[str]()
    commit = SqliteLedger.commit

    async def leave(ledger: SqliteLedger, work: Work) -> Committed:
        if work.entries and any(draft.agent_id == "bot" for draft in work.entries):
            commits.append(work)
            if len(commits) == nth:
                presence.here = False
        return await commit(ledger, work)

    async with a_gate(tmp_path, ALLOW_ALL, sender(acts), reader(acts), counter()) as gate:
        monkeypatch.setattr(SqliteLedger, "commit", leave)
        outcome = await soon(gate.submit(request(presence, name)))
        assert outcome.status is Status.SUCCESS
        left = await waiting(gate, 0 if presence.here else 1)
        assert left == ([] if presence.here else [outcome])
        again = await soon(gate.submit(request(Presence(), name)))
        assert (again.call_id, len(acts) <= 1) == (outcome.call_id, True)


async def test_an_agent_that_comes_back_while_its_call_is_held_gets_it_and_nothing_is_left(tmp_path: Path) -> None:
    gone, back, acts = Presence(), Presence(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        first = asyncio.create_task(gate.submit(request(gone)))
        asked = await question(gate)
        gone.here = False
        second = asyncio.create_task(gate.submit(request(back)))
        await asyncio.sleep(0)
        await gate.answer(asked.call_id, approve=True, by=ANNA)
        outcomes = await soon(asyncio.gather(first, second))
        assert [outcome.call_id for outcome in outcomes] == [asked.call_id] * 2
        assert (acts, await Mailbox(gate).count(BOT)) == ([""], 0)


async def test_a_gate_that_closes_settles_what_runs_in_a_doors_task_and_leaves_questions_open(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool("slow", effect="write", risk="low", cost=0)
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    policy = {"rules": [{"pattern": "slow", "action": "allow"}, {"pattern": "*", "action": "ask"}]}
    async with a_gate(tmp_path, policy, slow, sender([])) as gate:
        held = asyncio.create_task(gate.submit(request(Presence())))
        running = asyncio.create_task(gate.submit(request(Presence(), "slow", "s")))
        await soon(begun.wait())
        asked = await question(gate)
        closing = asyncio.create_task(gate.close())
        assert (await soon(held)).status is Status.PENDING_APPROVAL
        assert held.cancelling() == 0
        assert not closing.done()
        go_on.set()
        await soon(closing)
        assert (running.done(), (await soon(running)).data) == (True, "done")
        assert (await gate.ledger.answer_to(asked.call_id)) == (None, ())
