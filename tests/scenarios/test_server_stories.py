"""Random stories at a server: requests, answers, time, leaving and coming back, restarts, other rules, in any order.

Whatever happens: a call is executed at most once, only as it was shown, never after a no or the deadline, and every
request is answered exactly once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

from agent_gate import Approver, Gate, GateError, Outcome, load_policy, tool
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.model.approval import GrantTerms
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding
from agent_gate.toolkit import REGISTERED, registered_tool
from tests.gates import (
    ANNA,
    ASK_ALL,
    BOB,
    PATIENCE_S,
    HandClock,
    Row,
    Tool,
    a_gate,
    counter,
    entries,
    reader,
    rows,
    soon,
    until,
)

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
STORIES, CHAPTERS = (10_000, 100) if THOROUGH else (80, 8)
STEPS = 30
TIMEOUT_S = 900

CAROL = Approver("carol", ("operator",))
AGENTS = tuple(Agent(name, owner="carol") for name in ("kitchen", "garden"))
TOOLS = ("lamp.switch", "counter.add", "note.read")
POLICIES = tuple(
    load_policy(policy)
    for policy in (
        ASK_ALL,
        ASK_ALL,
        ASK_ALL,
        {"rules": [{"pattern": "*", "action": "allow"}]},
        {"rules": [{"pattern": "*", "action": "deny"}]},
        {**ASK_ALL, "approvals": [{"min_cost": 0, "approvers_required": 2}]},
        {**ASK_ALL, "approvals": [{"min_cost": 0, "approver_role": "admin"}]},
        {**ASK_ALL, "cooldown_seconds": 300},
    )
)


@dataclass
class World:
    """What the tools touch."""

    lamp: str = "lamp"
    acts: list[tuple[str, str]] = field(default_factory=list)
    """(request, lamp)"""

    def tools(self) -> list[Tool]:
        @tool("lamp.switch", effect="write", risk="medium", cost=1, unsigned=["text"])
        async def switch(text: str) -> Json:
            self.acts.append((text, self.lamp))
            await asyncio.sleep(0)
            return {"switched": self.lamp}

        async def bind(*_: object) -> Binding:
            return Binding(("lamp.switch(kitchen)",), {"reaches": self.lamp})

        setattr(switch, REGISTERED, replace(registered_tool(switch), bind=bind))
        return [switch, counter("counter.add", unsigned=["n"]), reader([])]


@dataclass
class Wish:
    agent: Agent
    request: CallRequest
    answers: list[Outcome] = field(default_factory=list)
    """What the agent was told, on whichever connection."""


class Story:
    def __init__(self, directory: Path, seed: int) -> None:
        self.random, self.clock, self.world = Random(seed), HandClock(), World()
        self.set_ahead = False
        """Whether moments by the wall clock do not compare any more."""
        self.directory, self.policy = directory, POLICIES[0]
        self.wishes: dict[tuple[str, str], Wish] = {}
        self.connections: dict[asyncio.Task[Outcome], Wish] = {}
        self.acknowledged: set[str] = set()
        self.gate: Gate
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self._stack = AsyncExitStack()
        self.gate = await self._stack.enter_async_context(
            a_gate(
                self.directory,
                self.policy,
                *self.world.tools(),
                clock=self.clock,
                approvers=(ANNA, BOB, CAROL),
                approval_timeout_s=TIMEOUT_S,
            )
        )
        await Mailbox(self.gate).take_over_held({agent.id: agent for agent in AGENTS})

    async def close(self) -> None:
        self._disconnect(*AGENTS)
        await soon(self._stack.aclose())

    async def go_on(self) -> None:
        chances = (
            (self._request, 8),
            (self._answer, 7),
            (self._let_time_pass, 2),
            (self._leave, 2),
            (self._come_back, 2),
            (self._restart, 1),
            (self._change_policy, 1),
            (self._change_world, 1),
            (self._withdraw, 1),
            (self._turn_switch, 1),
            (self._revoke, 1),
            (self._breathe, 4),
        )
        (step,) = self.random.choices([step for step, _ in chances], [weight for _, weight in chances])
        await step()
        self._hear()

    async def _request(self) -> None:
        agent, id = self.random.choice(AGENTS), self.random.choice("abcdef")
        wish = self.wishes.get((agent.id, id))
        if wish is None:
            name = self.random.choice(TOOLS)
            args: dict[str, Json] = {"n": 1} if name == "counter.add" else {"text": f"{agent.id}/{id}"}
            request = CallRequest(agent, name, args, request_id=id, door="websocket")
            wish = self.wishes[agent.id, id] = Wish(agent, request)
        request = structs.replace(wish.request, wait=self.random.random() < 0.7)
        self.connections[asyncio.create_task(self.gate.submit(request))] = wish

    async def _answer(self) -> None:
        asked = await self.gate.ledger.questions()
        if not asked:
            return
        question, by = self.random.choice(asked), self.random.choice((ANNA, BOB, CAROL))
        nonce = question.nonce if self.random.random() < 0.9 else "forged"
        grant = GrantTerms(600, 2) if self.random.random() < 0.2 else None
        late = question.left_s(self.clock) <= 0
        try:
            await soon(
                self.gate.answer(question.call_id, approve=self.random.random() < 0.7, by=by, nonce=nonce, grant=grant)
            )
        except GateError:
            return
        assert not late
        assert nonce == question.nonce
        assert by is not CAROL, "the owner may not answer"

    async def _let_time_pass(self) -> None:
        if self.random.random() < 0.1:
            jump_s = self.random.choice((-30, 40 * TIMEOUT_S))
            self.clock.set(self.clock.now() + jump_s)
            self.set_ahead = self.set_ahead or jump_s > 0
        else:
            self.clock.advance(self.random.choice((1, 100, 450, TIMEOUT_S)))

    async def _leave(self) -> None:
        self._disconnect(self.random.choice(AGENTS))

    def _disconnect(self, *agents: Agent) -> None:
        self._hear()
        for task, wish in list(self.connections.items()):
            if wish.agent in agents:
                task.cancel()
                del self.connections[task]

    async def _come_back(self) -> None:
        agent, mailbox = self.random.choice(AGENTS), Mailbox(self.gate)
        for outcome in await mailbox.results(agent):
            self.wishes[agent.id, outcome.request_id].answers.append(outcome)
            if self.random.random() < 0.5:
                self.acknowledged.add(outcome.call_id)
                await mailbox.acknowledge(agent, [outcome.call_id])

    async def _restart(self) -> None:
        await self.close()
        await self.open()

    async def _change_policy(self) -> None:
        self.policy = self.random.choice(POLICIES)
        self.gate.judge = Judge(self.policy)

    async def _change_world(self) -> None:
        self.world.lamp = self.random.choice(("lamp", "oven"))

    async def _withdraw(self) -> None:
        if not self.wishes:
            return
        wish = self.random.choice(list(self.wishes.values()))
        try:
            wish.answers.append(await soon(self.gate.withdraw(wish.agent, wish.request.request_id or "")))
        except GateError:
            return

    async def _turn_switch(self) -> None:
        approvals = Approvals(self.gate)
        await (approvals.resume(ANNA) if await approvals.paused() else approvals.pause(ANNA))

    async def _revoke(self) -> None:
        for grant in await Approvals(self.gate).grants():
            await Approvals(self.gate).revoke(grant.grant_id, BOB)

    async def _breathe(self) -> None:
        for _ in range(self.random.randrange(40)):
            await asyncio.sleep(0)

    def _hear(self) -> None:
        for task, wish in list(self.connections.items()):
            if task.done():
                del self.connections[task]
                wish.answers.append(task.result())

    async def end(self) -> None:
        """Everything is answered in the end: who still waits is told, whatever is asked again has one outcome."""
        await Approvals(self.gate).resume(ANNA)
        self.gate.judge = Judge(POLICIES[0])
        over_at = self.clock.now()
        async with asyncio.timeout(PATIENCE_S):
            while not all(task.done() for task in self.connections):
                self.clock.advance(TIMEOUT_S)
                await asyncio.sleep(0.005)
        self.clock.advance(TIMEOUT_S)
        self._hear()
        for wish in self.wishes.values():
            outcome = await soon(self.gate.submit(structs.replace(wish.request, wait=False)))
            if outcome.status is Status.PENDING_APPROVAL:
                self.clock.advance(TIMEOUT_S)
                outcome = await soon(self.gate.submit(wish.request))
            self._examine_answers(wish, outcome)
            if outcome.ended_at is not None and outcome.ended_at > over_at:
                wish.answers.append(outcome)
        await until(lambda: not self.gate._tasks.running)  # an outcome that nobody took is just being kept
        waiting = {o.call_id for agent in AGENTS for o in await Mailbox(self.gate).results(agent)}
        self._examine_ledger(waiting)

    def _examine_answers(self, wish: Wish, last: Outcome) -> None:
        """All that the agent was ever told of one request is one outcome; before it there may be `pending_approval`.

        A call that was refused before it was taken in, as by a paused gate, may be made again under the same id.
        """
        final = [o for o in wish.answers if o.status is not Status.PENDING_APPROVAL and o.call_id == last.call_id]
        for outcome in final:
            assert outcome.to_json() == last.to_json(), (outcome.to_json(), last.to_json())
        others = [o for o in wish.answers if o.call_id != last.call_id]
        assert all(o.status is Status.DENIED and o.error and o.error.code == 1017 for o in others), others
        acts = [lamp for text, lamp in self.world.acts if text == wish.request.args.get("text")]
        if wish.request.tool == "lamp.switch":
            assert len(acts) == (last.status is Status.SUCCESS)

    def _examine_ledger(self, waiting: set[str]) -> None:
        calls: dict[str, list[Row]] = {}
        for row in entries(self.gate):
            if row["call_id"]:
                calls.setdefault(row["call_id"], []).append(row)
        given = [row["body"] for row in entries(self.gate, "grant") if row["status"] == "given"]
        grants = {grant["grant_id"]: grant for grant in given}
        used: Counter[str] = Counter()
        told = {o.call_id for wish in self.wishes.values() for o in wish.answers if o.ended_at is not None}
        for call_id, facts in calls.items():
            kinds = Counter(row["kind"] for row in facts)
            assert kinds["settled"] == 1
            assert kinds["performing"] <= 1
            self._examine_call(facts, grants, used)
            assert facts[0]["project"] == "_gate" or call_id in told | waiting | self.acknowledged, facts
        assert all(used[id] <= grants[id]["uses"] for id in used)
        assert rows(self.gate, "SELECT * FROM pending_requests") == []
        assert rows(self.gate, "SELECT * FROM open_work") == []

    def _examine_call(self, facts: list[Row], grants: dict[str, Any], used: Counter[str]) -> None:
        settled = facts[-1] if facts[-1]["kind"] == "settled" else next(r for r in facts if r["kind"] == "settled")
        acted = settled["status"] == "success" or any(row["kind"] == "performing" for row in facts)
        answers = [row for row in facts if row["kind"] == "answered"]
        if not acted or settled["body"]["decision"] == "allow":
            return
        assert "resolution" in settled["body"], facts
        if settled["body"]["resolution"] == "granted":
            grant = grants[settled["body"]["grant_id"]]
            used[grant["grant_id"]] += 1
            assert settled["body"]["started_at"] < grant["expires_at"]
            return
        held = [row for row in facts if row["kind"] == "held" and "args" in row["body"]][-1]
        agreed = [row for row in answers if row["body"]["nonce"] == held["body"]["nonce"]]
        assert agreed
        assert all(row["status"] == "approved" for row in agreed)
        assert self.set_ahead or all(row["at"] < held["body"]["expires_at"] for row in agreed)
        assert not any(row["status"] in ("denied", "withdrawn", "expired") for row in answers)
        assert len({row["body"]["resolved_by"] for row in agreed}) == len(agreed)
        performing = next((row for row in facts if row["kind"] == "performing"), settled)
        assert performing["body"].get("resources") == held["body"].get("resources")


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger that nothing has happened in: making one takes longer than a story."""
    directory = tmp_path_factory.mktemp("empty")

    async def make() -> None:
        async with a_gate(directory, ASK_ALL):
            pass

    asyncio.run(make())
    return directory


@pytest.mark.parametrize("chapter", range(CHAPTERS))
async def test_every_request_is_answered_once_and_executed_at_most_once_as_it_was_shown(
    tmp_path: Path, empty_ledger: Path, chapter: int
) -> None:
    for seed in range(chapter, STORIES, CHAPTERS):
        directory = tmp_path / str(seed)
        shutil.copytree(empty_ledger, directory)
        story = Story(directory, seed)
        try:
            await story.open()
            for _ in range(STEPS):
                await story.go_on()
            await story.end()
            await story.close()
        except BaseException as error:
            error.add_note(f"story {seed}")
            raise
        shutil.rmtree(directory)
