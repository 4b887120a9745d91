"""Random stories of calls, answers, restarts and time: whatever happens, an act is approved, in time, and done once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from agent_gate import Gate, GateError
from agent_gate.model.outcome import Status
from tests.gates import ANNA, ASK_ALL, HandClock, a_gate, entries, rows, sender, soon

STORIES = 400 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 12
REQUESTS = ("a", "b", "c")
TIMEOUT_S = 900


class Story:
    """Two processes that share a ledger and restart as they like, three requests, and one person."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random, self.clock = Random(seed), HandClock()
        self.acts: list[str] = []
        self.answers: dict[str, str] = {}
        """What each call was answered with, in time and for the first time."""
        self._directory = directory
        self._gates: list[tuple[AsyncExitStack, Gate]] = []

    async def open(self) -> None:
        stack = AsyncExitStack()
        gate = await stack.enter_async_context(
            a_gate(self._directory, ASK_ALL, sender(self.acts), clock=self.clock, approval_timeout_s=TIMEOUT_S)
        )
        self._gates.append((stack, gate))

    @property
    def gate(self) -> Gate:
        return self.random.choice(self._gates)[1]

    async def close(self) -> None:
        stack, _ = self._gates.pop(self.random.randrange(len(self._gates)))
        await soon(stack.aclose())

    async def go_on(self) -> None:
        match self.random.randrange(7):
            case 0 | 1:
                request = self.random.choice(REQUESTS)
                await soon(self.gate.call("mail.send", text=request, request_id=request, wait=False))
            case 2 | 3:
                await self._answer(approve=self.random.random() < 0.7)
            case 4:
                self.clock.advance(self.random.choice((1, 100, 450, TIMEOUT_S)))
            case 5:
                await self.close()
                await self.open()
            case _:
                for _ in range(self.random.randrange(20)):
                    await asyncio.sleep(0)

    async def _answer(self, *, approve: bool) -> None:
        asked = await self.gate.ledger.questions()
        if not asked:
            return
        question = self.random.choice(asked)
        in_time = self.clock.now() < question.expires_at
        try:
            await self.gate.answer(question.call_id, approve=approve, by=ANNA, nonce=question.nonce)
        except GateError:
            return
        assert in_time
        assert question.call_id not in self.answers
        self.answers[question.call_id] = "approved" if approve else "denied"

    async def end(self) -> None:
        """Let every deadline pass, and ask once more how each request ended."""
        self.clock.advance(10 * TIMEOUT_S)
        for request in REQUESTS:
            outcome = await soon(self.gate.call("mail.send", text=request, request_id=request, wait=False))
            if outcome.status is Status.PENDING_APPROVAL:
                self.clock.advance(10 * TIMEOUT_S)
                outcome = await soon(self.gate.call("mail.send", text=request, request_id=request))
            acts = self.acts.count(request)
            answer = self.answers.get(outcome.call_id, "none")
            assert outcome.status is not Status.PENDING_APPROVAL
            assert acts == (outcome.status is Status.SUCCESS)
            assert answer == "approved" or acts == 0
            assert answer != "denied" or outcome.status is Status.DENIED
        self._examine()

    def _examine(self) -> None:
        gate = self.gate
        settled = Counter(row["call_id"] for row in entries(gate, "settled"))
        performing = Counter(row["call_id"] for row in entries(gate, "performing"))
        assert set(settled.values()) <= {1}
        assert set(performing.values()) <= {1}
        assert len(settled) == len(REQUESTS)
        assert rows(gate, "SELECT * FROM pending_requests") == []
        assert rows(gate, "SELECT * FROM open_work") == []


@pytest.mark.parametrize("seed", range(STORIES))
async def test_an_act_is_approved_in_time_and_done_once_whatever_happens(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    await story.open()
    await story.open()
    for _ in range(25):
        await story.go_on()
    await story.end()
    await story.close()
    await story.close()
