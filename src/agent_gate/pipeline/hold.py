"""Hold: questions to people are durable, answered once, in time, by someone entitled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from hmac import compare_digest

from msgspec import Struct

from agent_gate.model import record
from agent_gate.model.approval import Answer, Approver, Question
from agent_gate.model.bounds import NOTIFY_TIMEOUT_S
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.charge import Charge
from agent_gate.model.committed import Applied, Committed, NotPending
from agent_gate.model.entry import GATE_PROJECT, Draft, Entry
from agent_gate.model.errors import Problem
from agent_gate.model.grant import Grant, grant_key
from agent_gate.model.moment import iso
from agent_gate.model.record_people import granted, refused_answer, used
from agent_gate.model.work import Claim, GiveGrant, Hold, Resolve, TakeOver, UseGrant, Work
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import Judged, Tools
from agent_gate.ports.watching import Notifier
from agent_gate.tools.grants import Declared, why_once_only, why_ungranted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The end of a question: `approved`, `denied`, `expired` or `withdrawn`, by whom and when.

    `granted` where none was put, because a standing grant answers it.
    """

    how: str
    by: str
    at: float


class Inquiry(Struct, frozen=True):
    """A question to be put, and what goes into the ledger with it."""

    judged: Judged
    charges: tuple[Charge, ...]
    """To be reserved until the end of the call."""
    claim: Claim | None = None
    earlier: Question | None = None
    """The question that a changed policy made insufficient; its deadline stays."""
    has_run: bool = False
    """True where it is about what the act made ready."""
    started_at: float | None = None
    """The beginning of the call; with the question, where it is not said."""


class Holder:
    """Puts questions to people, records their answers, and waits for them."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
        notifier: Notifier | None,
        approval_timeout_s: float,
        tools: Tools,
        notify_timeout_s: float = NOTIFY_TIMEOUT_S,
    ) -> None:
        self._ledger, self._clock, self._ids, self._notifier = ledger, clock, ids, notifier
        self._approval_timeout_s, self._tools, self._notify_timeout_s = approval_timeout_s, tools, notify_timeout_s
        self._being_put: dict[str, str] = {}
        """Questions on their way into the ledger: call id and agent."""
        self._ends: dict[str, float] = {}
        """Ends of the questions that wait here, on the clock that nobody can set back."""

    async def ask(self, inquiry: Inquiry) -> Question | Committed | Problem:
        """Put the question and reserve what the act will count against."""
        full = None if inquiry.earlier else await self._too_many(inquiry.judged.prepared.call)
        if full:
            return full
        question = self._question(inquiry)
        self._being_put[question.call_id] = question.agent_id
        try:
            committed = await self._ledger.commit(self._held(inquiry, question))
        finally:
            del self._being_put[question.call_id]
        return question if isinstance(committed, Applied) else committed

    def _held(self, inquiry: Inquiry, question: Question) -> Work:
        prepared, verdict = inquiry.judged.prepared, inquiry.judged.verdict
        claim, earlier, charges = inquiry.claim, inquiry.earlier, inquiry.charges
        draft = record.held(
            prepared.call,
            prepared.facts,
            verdict,
            question,
            instance=self._ledger.instance,
            salt=self._ids.salt(),
            started_at=inquiry.started_at or question.created_at,
            reserved=charges,
        )
        return Work(
            question.project,
            (draft,),
            (*(() if earlier or claim is None else (claim,)), *charges, Hold(question)),
            must_be_open=True,
        )

    async def take_over(self, question: Question, earlier: Sequence[Entry], gone: str) -> Committed:
        """Hold a call whose process is gone; the question, its answer if there is one and its deadline stay."""
        draft = record.taken_over(question, earlier, self._clock.now(), self._ledger.instance, self._ids.salt())
        work = Work(question.project, (draft,), (TakeOver(question.call_id, gone),))
        return await self._ledger.commit(work)

    async def _too_many(self, call: BoundCall) -> Problem | None:
        most = call.request.agent.max_pending_approvals
        if most is None:
            return None
        agent_id = call.request.agent.id
        being_put = {call_id for call_id, asker in self._being_put.items() if asker == agent_id}
        open_now = len(being_put.union(await self._ledger.questions_of(agent_id)))
        if open_now < most:
            return None
        return Problem(
            1012, f"{open_now} questions of this agent are open, of {most} allowed", "wait for answers", "hold"
        )

    def _question(self, inquiry: Inquiry) -> Question:
        prepared, verdict, earlier = inquiry.judged.prepared, inquiry.judged.verdict, inquiry.earlier
        call, now = prepared.call, self._clock.now()
        request = call.request
        wait_s = self._wait_s(request)
        return Question(
            call_id=call.call_id,
            request_id=request.request_id or call.call_id,
            project=request.project,
            agent_id=request.agent.id,
            owner=request.agent.owner,
            tool=request.tool,
            args=call.recorded_args,
            signatures=call.signatures,
            reasons=tuple(reason.to_json() for reason in verdict.reasons),
            bound_hash=call.bound_hash,
            nonce=self._ids.salt(),
            policy_hash=prepared.facts.policy_hash,
            approver_roles=verdict.requirement.approver_roles,
            approvers_required=verdict.requirement.approvers_required,
            created_at=now,
            expires_at=earlier.expires_at if earlier else now + wait_s,
            sensitive=tuple(sorted(prepared.declaration.sensitive)),
            run_id=request.run_id,
            has_run=inquiry.has_run,
            boot=earlier.boot if earlier else self._clock.boot,
            ends_at=earlier.ends_at if earlier else self._clock.monotonic() + wait_s,
        )

    def _wait_s(self, request: CallRequest) -> float:
        """A run's own end comes before the deadline of its questions."""
        if request.run_ends_at is None:
            return self._approval_timeout_s
        return min(self._approval_timeout_s, max(0.0, request.run_ends_at - self._clock.monotonic()))

    async def wait(self, question: Question) -> Resolution:
        """Tell people, and wait until the question is answered, by whichever process, or its deadline has passed."""
        if self._notifier:
            await self._tell(self._notifier.ask(question), question)
        ends_at = self._ends[question.call_id] = self._clock.monotonic() + question.left_s(self._clock)
        try:
            while (resolution := await self._resolution(question)) is None:
                # Thousands may wait here: nothing is kept but the question.
                await self._ledger.wait_for_answer(question.call_id, deadline=ends_at)
        finally:
            del self._ends[question.call_id]
        if self._notifier:
            await self._tell(self._notifier.resolved(question, resolution.how, resolution.by), question)
        return resolution

    async def _tell(self, news: Awaitable[None], question: Question) -> None:
        """A messenger that fails or hangs takes nothing from the question: it can be answered at every other door."""
        try:
            async with asyncio.timeout(self._notify_timeout_s):
                await news
        except Exception as error:
            _log.warning("nobody could be told of call %s: %s: %s", question.call_id, type(error).__name__, error)

    def _is_over(self, question: Question) -> bool:
        """True after its deadline; a wall clock that was set does not move the end of what waits here."""
        ends_at = self._ends.get(question.call_id)
        return question.left_s(self._clock) <= 0 if ends_at is None else ends_at <= self._clock.monotonic()

    async def _resolution(self, question: Question) -> Resolution | None:
        """The end of the question, where it has one; one whose deadline has passed ends now."""
        found = await self._ledger.answer_to(question.call_id)
        if found is not None and found[0] is None and self._is_over(question):
            await self._resolve(question, "expired", "", self._clock.now(), "")
            found = await self._ledger.answer_to(question.call_id)
        how, approvers = found or ("expired", ())
        if how is None:
            return None
        answers = await self._ledger.entries_of(question.call_id, "answered")
        if not answers:
            return Resolution("expired", "", self._clock.now())
        last = answers[-1]
        if found is None:  # whoever ended it took it off the table; the record still tells how it was answered
            return Resolution(last.status or "expired", record.answered_by(last), record.answered_at(last))
        by = ", ".join(approvers) if how == "approved" else record.answered_by(last)
        return Resolution(how, by, record.answered_at(last))

    async def answer(self, answer: Answer) -> Problem | None:
        """Record one person's answer; what is wrong with it is the result, and recorded too."""
        problem = await self._answer(answer)
        if problem:
            verb, now = "approve" if answer.approve else "deny", self._clock.now()
            draft = refused_answer(answer.call_id, verb, answer.by.id, problem, now, self._ids.salt())
            await self._ledger.commit(Work(GATE_PROJECT, (draft,)))
        return problem

    async def _answer(self, answer: Answer) -> Problem | None:
        found = await self._ledger.question(answer.call_id)
        if found is None:
            return _no_such_question(answer.call_id)
        question = found[0]
        if not compare_digest(question.nonce.encode(), answer.nonce.encode()):
            return _no_such_question(answer.call_id)
        refused = not_entitled(question, answer.by) or _not_grantable(question, answer, self._tools.declaration)
        if refused:
            return refused
        if not await self._ledger.is_as_put(question.call_id):
            detail = f"the question about call `{answer.call_id}` was changed since it was put"
            return Problem(5004, detail, "run `agent-gate verify`", "hold")
        if found[1] is None and self._is_over(question):
            return _too_late(question, NotPending("late"))
        grant = self._grant(question, answer) if answer.approve and answer.grant else None
        how = "approved" if answer.approve else "denied"
        committed = await self._resolve(question, how, answer.by.id, answer.at, answer.note, grant)
        return _too_late(question, committed) if isinstance(committed, NotPending) else None

    def _grant(self, question: Question, answer: Answer) -> Grant:
        assert answer.grant is not None
        return Grant(
            grant_id=self._ids.new(),
            project=question.project,
            agent_id=question.agent_id,
            tool=question.tool,
            signatures=question.signatures,
            key=grant_key(question.tool, question.signatures, question.args, question.sensitive),
            given_by=answer.by.id,
            roles=answer.by.roles,
            call_id=question.call_id,
            created_at=answer.at,
            expires_at=answer.at + answer.grant.seconds,
            uses=answer.grant.uses,
            uses_left=answer.grant.uses,
        )

    async def granted(self, judged: Judged) -> Grant | None:
        """A grant by which a person agreed beforehand to all that this verdict asks for."""
        prepared, call = judged.prepared, judged.prepared.call
        request = call.request
        if why_ungranted(call.signatures, self._tools.declaration):
            return None
        key = grant_key(request.tool, call.signatures, call.recorded_args, sorted(prepared.declaration.sensitive))
        grants = await self._ledger.grants_of(request.project, request.agent.id, key, self._clock.now())
        return next((grant for grant in grants if grant.covers(judged.verdict.requirement)), None)

    def use(self, grant: Grant, call_id: str) -> UseGrant:
        """One use of it, for this call."""
        now = self._clock.now()
        return UseGrant(grant.grant_id, iso(now), used(grant, call_id, now, self._ids.salt()))

    async def withdraw(self, question: Question) -> Committed:
        """The agent takes its call back before anybody has answered."""
        return await self._resolve(question, "withdrawn", question.agent_id, self._clock.now(), "")

    async def expire(self, question: Question) -> None:
        """End a question early: nothing could come of an answer any more."""
        await self._resolve(question, "expired", "", self._clock.now(), "")

    async def _resolve(
        self, question: Question, how: str, by: str, at: float, note: str, grant: Grant | None = None
    ) -> Committed:
        drafts: tuple[Draft, ...] = (record.answered(question, how, by, at, note, self._ids.salt()),)
        resolve = Resolve(question.call_id, question.nonce, at, how, by, in_time=True)
        if grant is None:
            return await self._ledger.commit(Work(question.project, drafts, (resolve,)))
        drafts += (granted(grant, self._ids.salt()),)
        return await self._ledger.commit(Work(question.project, drafts, (resolve, GiveGrant(grant))))


def not_entitled(question: Question, approver: Approver) -> Problem | None:
    """The reason why this person's answer would not count; None where it would."""
    if approver.id in (question.agent_id, question.owner):
        return Problem(6003, f"`{approver.id}` may not approve a call of its own", "ask another approver", "hold")
    lacking = [role for role in question.approver_roles if not approver.has_role(role)]
    if lacking:
        return Problem(
            6003,
            f"only an approver with role {' and '.join(lacking)} may; `{approver.id}` is {', '.join(approver.roles)}",
            "ask someone who has it",
            "hold",
        )
    return None


def _not_grantable(question: Question, answer: Answer, declared: Declared) -> Problem | None:
    if answer.grant is None or not answer.approve:
        return None
    if why := why_once_only(question, declared):
        return Problem(6003, why, "approve it once", "hold")
    return answer.grant.wrong()


def _no_such_question(call_id: str) -> Problem:
    return Problem(6003, f"no question about call `{call_id}` is open", "see `agent-gate pending`", "hold")


def _too_late(question: Question, refused: NotPending) -> Problem:
    if refused.why == "late":
        return Problem(1016, f"the deadline of call `{question.call_id}` has passed", stage="hold")
    return Problem(6003, f"the question about call `{question.call_id}` was answered already", stage="hold")
