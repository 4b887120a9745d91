"""Judging requests of others' traffic: asked about where need be, and never waited for.

A question about a request waits in the ledger and in no caller's task. What a person answers is used up by the next
request that is the same, in the transaction that writes down that it may pass; or it ends with the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from msgspec import structs

from agent_gate.gate.gate import Gate
from agent_gate.gate.progress import covers, refusal, resolution_fields
from agent_gate.gate.tasks import Tasks
from agent_gate.gate.traffic.held_request import HeldRequest
from agent_gate.model.approval import Question
from agent_gate.model.bounds import REQUEST_RETRY_AFTER_S
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.committed import Applied, NoRoom, NotOpen
from agent_gate.model.ending import Ending
from agent_gate.model.entry import GATE_PROJECT, Draft, Entry
from agent_gate.model.errors import GateError, Problem, StorageError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.record import reserved_by
from agent_gate.model.record_judged import judged
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.model.work import Change, Work
from agent_gate.pipeline.admit import Admitted, Rejected, closed_problem
from agent_gate.pipeline.hold import Inquiry, Resolution
from agent_gate.policy.limits import no_room, outstanding
from agent_gate.ports.judging import HttpRequest, RequestAllowed, RequestDenied, RequestHeld
from agent_gate.ports.tools import Judged, Prepared
from agent_gate.services.registry import ToolRegistry
from agent_gate.services.requests import NAME, UNSEEN, request_tool, wish_of

_log = logging.getLogger(__name__)

Judgement: TypeAlias = RequestAllowed | RequestDenied | RequestHeld

PASSED_ON = "let through; it is performed elsewhere"
NOT_SHOWN = Problem(
    1001, "a person would be asked, but the body of this request is not shown here", "let its route show bodies", "hold"
)
CLOSING = Problem(5001, "the gate is closing", "send the request again when it is back", "admit")


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request as it came."""

    wish: CallRequest
    args: Mapping[str, Json]
    call_id: str
    started_at: float


class Traffic:
    """The port `RequestJudge` of a gate, for the agents that a configuration knows."""

    def __init__(self, gate: Gate, agents: Mapping[str, Agent]) -> None:
        self._gate, self._agents = gate, agents
        self._ledger, self._clock, self._stages = gate.ledger, gate.clock, gate.stages
        self._binder = gate.stages.binder.with_tools(ToolRegistry([request_tool()]))
        self._turn = asyncio.Lock()
        """Of those about which a person is asked: two that are the same put one question."""
        self._judging, self._following = Tasks(), Tasks()
        self._closing = False

    async def __aenter__(self) -> Self:
        """Questions of a server that is gone go on here, with their old deadline."""
        for question in await self._ledger.unsettled_questions():
            gone = await self._ledger.abandoned_by(question.call_id) if question.tool == NAME else None
            if gone is not None:
                earlier = await self._ledger.entries_of(question.call_id)
                if isinstance(await self._stages.holder.take_over(question, earlier, gone), Applied):
                    self._follow(question)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let what is being judged be written down; questions stay open in the ledger."""
        self._closing = True
        await self._judging.wait()
        self._following.cancel()
        await self._following.wait()

    async def judge_request(self, request: HttpRequest) -> Judgement:
        """Goes on when the caller is cancelled: a question that was put is also told to people."""
        if self._closing:
            return RequestDenied(CLOSING)
        agent = self._agents.get(request.agent_id)
        if agent is None:
            detail = f"agent `{request.agent_id}` is not known here"
            return self._rejected(request.agent_id, Problem(6003, detail, "add it to agents in the config", "admit"))
        return await asyncio.shield(self._judging.start(self._judged(agent, request)))

    async def health_check(self) -> None:
        """The writer takes work: what cannot be written down is not let through."""
        if self._closing:
            raise GateError.of(CLOSING)
        await self._ledger.commit(Work(GATE_PROJECT))

    def _rejected(self, who: str, problem: Problem) -> RequestDenied:
        """Counted, never one entry each."""
        self._gate.count_refusal(who, problem)
        return RequestDenied(problem)

    async def _judged(self, agent: Agent, request: HttpRequest) -> Judgement:
        wish, call_id, started_at = wish_of(agent, request), self._gate.ids.new(), self._clock.now()
        try:
            admitted = await self._stages.admission.admit(wish, call_id)
            if isinstance(admitted, Rejected):
                return self._rejected(agent.id, admitted.problem)
            assert isinstance(admitted, Admitted), "a wish without a request id is never a repeated one"
            return await self._decided(_Asked(wish, admitted.args, call_id, started_at))
        except StorageError as error:
            return RequestDenied(error.problem.at("settle"))

    async def _decided(self, asked: _Asked) -> Judgement:
        first = await self._judge(asked, asked.call_id)
        if first.verdict.decision is Decision.ALLOW:
            passed = await self._let_through(asked, first)
            assert passed is not None, "it uses nothing up that could be gone"
            return passed
        async with self._turn:
            found = await self._open_question(asked, first.prepared.call.bound_hash)
            answer = await self._by_answer(asked, found) if found else None
            return answer or await self._without_answer(asked, first)

    async def _judge(self, asked: _Asked, call_id: str, earlier: Sequence[Entry] = ()) -> Judged:
        """Bind and decide, under one policy; what a question has reserved is the request's own."""
        judge = self._gate.judge
        own = tuple(replace(charge, amount=-charge.amount) for charge in reserved_by(earlier))
        prepared = await self._binder.bind(asked.wish, asked.args, call_id, judge, besides=own)
        assert isinstance(prepared, Prepared), prepared
        return Judged(prepared, judge.decide(prepared.call, prepared.facts, prepared.registered.declaration))

    async def _open_question(self, asked: _Asked, bound_hash: str) -> HeldRequest | None:
        """The question about exactly this request; one whose deadline has passed ends now."""
        found = await self._ledger.question_about(asked.wish.agent.id, bound_hash)
        if found is None:
            return None
        there = HeldRequest(*found, await self._ledger.entries_of(found[0].call_id))
        if there.question.left_s(self._clock) > 0:
            return there
        await self._end(there, there.too_late)
        return None

    async def _by_answer(self, asked: _Asked, found: HeldRequest) -> Judgement | None:
        """Judge by the question that is there; None where it means nothing for this request any more."""
        if found.how in ("denied", "withdrawn"):
            problem = refusal(found.resolution)
            await self._end(found, problem)
            return RequestDenied(problem)
        again = await self._judge(asked, found.question.call_id, found.entries)
        if again.verdict.decision is Decision.DENY:
            return await self._deny(asked, again)
        if again.verdict.decision is Decision.ALLOW:
            return await self._let_through(asked, _of_its_own(asked, again))
        if found.how is None:
            return self._held(found.question)
        if covers(found.question, again.verdict):
            return await self._let_through(asked, again, used=found)
        await self._end(found, Problem(1015, "the policy asks for more now: the approval is void", stage="hold"))
        return None

    async def _without_answer(self, asked: _Asked, first: Judged) -> Judgement:
        if first.verdict.problem is not None:
            return await self._deny(asked, first)
        if asked.args.get("body") == UNSEEN:
            return await self._deny(asked, first, NOT_SHOWN)
        grant = await self._stages.holder.granted(first)
        if grant is not None:
            now = self._clock.now()
            told = resolution_fields(Resolution("granted", grant.given_by, now)) | {"grant_id": grant.grant_id}
            use = self._stages.holder.use(grant, asked.call_id)
            passed = await self._let_through(asked, first, (use,), told)
            if passed is not None:
                return passed
        question = await self._stages.holder.ask(Inquiry(first, first.prepared.charges))
        match question:
            case Question():
                self._follow(question)
                return self._held(question)
            case Problem():
                return await self._deny(asked, first, question)
            case NoRoom(charge, used):
                return await self._deny(asked, first, no_room(charge, used))
            case NotOpen(status):
                return self._rejected(asked.wish.agent.id, closed_problem(asked.wish.project, status))
            case _:
                raise AssertionError(f"not an answer to putting a question: {question}")

    def _held(self, question: Question) -> RequestHeld:
        left_s = math.ceil(question.left_s(self._clock))
        return RequestHeld(question.call_id, max(1, min(REQUEST_RETRY_AFTER_S, left_s)))

    async def _let_through(
        self,
        asked: _Asked,
        reached: Judged,
        changes: tuple[Change, ...] = (),
        resolution: Mapping[str, str] | None = None,
        used: HeldRequest | None = None,
    ) -> Judgement | None:
        """Written down as what may pass, and in the same transaction all that it uses up.

        None where what it would use up is gone: a grant or an answer that another request was faster to use.
        """
        charges, started_at = reached.prepared.charges, asked.started_at
        if used is not None:
            charges = outstanding(charges, used.reserved)
            started_at, resolution = used.question.created_at, resolution_fields(used.resolution)
        ending = Ending(Status.SUCCESS, message=PASSED_ON, acted=True)
        outcome, draft = self._recorded(reached, ending, started_at, resolution, first=used is None)
        work = Work(asked.wish.project, (draft,), (*changes, *charges), must_be_open=True)
        committed = await self._ledger.commit(work if used is None else used.used_up_by(work))
        match committed:
            case Applied():
                self._gate.observer.ended(outcome.call_id, NAME, outcome)
                return RequestAllowed()
            case NoRoom(charge, amount):
                return await self._deny(asked, reached, no_room(charge, amount))
            case NotOpen(status):
                return self._rejected(asked.wish.agent.id, closed_problem(asked.wish.project, status))
            case _:
                return None

    async def _deny(self, asked: _Asked, reached: Judged, problem: Problem | None = None) -> RequestDenied:
        problem = problem or reached.verdict.problem
        assert problem is not None
        own = _of_its_own(asked, reached)
        outcome, draft = self._recorded(own, Ending.denied(problem), asked.started_at, None, first=True)
        await self._ledger.commit(Work(asked.wish.project, (draft,)))
        self._gate.observer.ended(outcome.call_id, NAME, outcome)
        return RequestDenied(problem)

    def _recorded(
        self, reached: Judged, ending: Ending, started_at: float, resolution: Mapping[str, str] | None, *, first: bool
    ) -> tuple[Outcome, Draft]:
        prepared, verdict = reached.prepared, reached.verdict
        outcome = self._stages.settler.outcome(reached, ending, started_at)
        salt = self._gate.ids.salt()
        draft = judged(prepared.call, prepared.facts, verdict, outcome, first=first, salt=salt, resolution=resolution)
        return outcome, draft

    def _follow(self, question: Question) -> None:
        self._following.start(self._until_its_end(question))

    async def _until_its_end(self, question: Question) -> None:
        """People are told of it, and how it was answered; what is not used by the deadline ends with it."""
        ends_at = self._clock.monotonic() + question.left_s(self._clock)
        try:
            await self._stages.holder.wait(question)
            while self._clock.monotonic() < ends_at:
                # Under a name of its own: answers are no news any more.
                await self._ledger.wait_for_answer(f"{question.call_id}:end", deadline=ends_at)
            async with self._turn:
                found = await self._ledger.question(question.call_id)
                if found is not None:
                    there = HeldRequest(*found, await self._ledger.entries_of(question.call_id))
                    await self._end(there, there.too_late)
        except StorageError as error:
            _log.warning("the question about request %s could not be ended: %s", question.call_id, error.problem)

    async def _end(self, there: HeldRequest, problem: Problem) -> None:
        """End the question; where another was faster to end or to use it, that stands."""
        await self._ledger.commit(there.ended(problem, self._clock.now(), self._gate.ids.salt))


def _of_its_own(asked: _Asked, reached: Judged) -> Judged:
    """The same, as a request that has nothing to do with the question that is open."""
    prepared = reached.prepared
    own = structs.replace(prepared, call=structs.replace(prepared.call, call_id=asked.call_id))
    return Judged(own, reached.verdict)
