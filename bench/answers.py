"""From a person's answer to the waiting agent's reply, in one process, beside one durable append."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from agent_gate import Approver, Gate, open_gate, tool
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.call import CallRequest
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_most, median_us
from bench.ledger import append_durations, template_draft

ANSWERS = 100
ROUNDS = 3
ANNA = Approver("anna", ("admin",))
POLICY = {"rules": [{"pattern": "lamp.*", "action": "ask"}]}


@tool("lamp.switch", effect="write", cost=0, risk="low")
async def switch(room: str) -> dict[str, str]:
    """A tool that does nothing, so that only the gate is measured."""
    return {"room": room}


def figures(directory: Path) -> Iterator[Figure]:
    yield asyncio.run(_measured(directory))


async def _measured(directory: Path) -> Figure:
    """Rounds take turns, so that noise from outside meets both."""
    template = await template_draft(directory / "answers-template.db")
    append: list[float] = []
    replies: list[float] = []
    async with open_gate(POLICY, directory / "answers.db", tools=[switch], approvers=[ANNA]) as gate:
        ledger = SqliteLedger(directory / "answers-appends.db", SystemClock(), RandomIds())
        for number in range(ROUNDS + 1):
            more = await append_durations(ledger, template, ANSWERS), [await _reply_s(gate) for _ in range(ANSWERS)]
            if number:
                append += more[0]
                replies += more[1]
        await ledger.close()
    return at_most("a person's answer to the agent's reply", median_us(replies), median_us(append), "A", "µs", 5)


async def _reply_s(gate: Gate) -> float:
    """A write that waits: its question is answered, it is judged again, intended, done and settled."""
    request = CallRequest(gate.agent, "lamp.switch", {"room": "kitchen"}, door="websocket")
    waiting = asyncio.create_task(gate.submit(request))
    while not (asked := await gate.ledger.questions()):  # noqa: ASYNC110 -- the question comes by another task
        await asyncio.sleep(0)
    while not gate._driver._asker._waiting:  # noqa: ASYNC110 -- likewise
        await asyncio.sleep(0)
    for _ in range(5):  # and has looked for an answer that is not there yet
        await asyncio.sleep(0)
    start = time.perf_counter()
    await gate.answer(asked[0].call_id, approve=True, by=ANNA, nonce=asked[0].nonce)
    assert (await waiting).ok
    return time.perf_counter() - start
