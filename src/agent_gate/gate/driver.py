"""The way of one call from bind to settle: each stage in turn, and again where the world moved in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from agent_gate.gate.command_commits import Committing
from agent_gate.gate.progress import Judged, Progress, covers, refusal, run_timeout, still_open
from agent_gate.gate.stages import Stages
from agent_gate.model.approval import Question
from agent_gate.model.charge import Charge
from agent_gate.model.committed import (
    AlreadyClosed,
    Applied,
    Committed,
    GrantSpent,
    NoRoom,
    NotOpen,
    RequestTaken,
    StateMoved,
)
from agent_gate.model.ending import Ending
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import Problem, StorageError
from agent_gate.model.limits import JOIN_LATE_POLLS_MAX, JOIN_POLLS_MAX, REBIND_TRIES_AMONG_OTHERS, REBIND_TRIES_MAX
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.project import ProjectState, StateRef
from agent_gate.model.record import outcome_of, output_blob
from agent_gate.model.tool import Json
from agent_gate.model.undone import Undone
from agent_gate.model.verdict import ASK, Decision, Verdict
from agent_gate.model.work import Change, LeaveResult, Work
from agent_gate.pipeline.admit import closed_problem, other_arguments
from agent_gate.pipeline.decide import decided
from agent_gate.pipeline.hold import NEWS_WAIT_S, Resolution
from agent_gate.pipeline.perform import needs_intent
from agent_gate.policy.judge import Judge
from agent_gate.policy.layers import no_room
from agent_gate.policy.limits import outstanding
from agent_gate.ports import Clock, Ledger, Moved, Observer, Prepared, Unobserved

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Settling: TypeAlias = tuple[Outcome, Awaitable[Committed], str | None]
"""The outcome, what the ledger will say to it, and the id of the effect that waits for that."""


class Unfit(Enum):
    """What a call comes to in a turn that is nothing to be done there: it must be asked about, or cannot be bound."""

    UNFIT = 1


UNFIT = Unfit.UNFIT


class Driver:
    """Drives a passage; whatever happens on it ends in one outcome."""

    def __init__(self, stages: Stages, judge: Judge, ledger: Ledger, clock: Clock) -> None:
        self.judge = judge
        self.ledger = ledger
        self.clock = clock
        self.observer: Observer = Unobserved()
        self._stages = stages
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        """Calls that wait for a person; the gate does not wait for them when it closes."""
        self._closing = False
        self._committing = Committing(stages, ledger, lambda: self.judge, self._wait_for_answer, self._paused)

    @property
    def stages(self) -> Stages:
        """For whoever puts something else than a call before them."""
        return self._stages

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def recordable(self, tool: str, args: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """What may be written down of arguments that are not bound: without the tool's secrets."""
        return self._stages.binder.recordable(tool, args)

    async def _recorded(self, call_id: str) -> Outcome | None:
        entries = await self.ledger.entries_of(call_id)
        return outcome_of(entries, await self.ledger.blob(output_blob(call_id)))

    async def _outcome_of_other(self, call_id: str, wait: bool) -> Outcome:
        """The outcome of the call that had this request first; the wait for it is joined, within bounds."""
        problem = Problem(2007, "the call with this request id is under way in another process", "ask again later")
        answer = Outcome(call_id=call_id, status=Status.UNKNOWN, error=problem)
        late_polls = 0
        for _ in range(JOIN_POLLS_MAX):
            found = await self.ledger.question(call_id)
            outcome = await self._recorded(call_id)
            if outcome is not None:
                return outcome
            if found is not None:
                answer = still_open(found[0])
                late_polls += found[0].left_s(self.clock) <= 0
            if not wait or late_polls > JOIN_LATE_POLLS_MAX:
                break
            await self.ledger.wait_for_answer(call_id, NEWS_WAIT_S)
        return answer

    async def _go(self, progress: Progress) -> Outcome:
        """The whole way; who waits is told from here, a turn of the event loop sooner than by the task's end."""
        outcome: Outcome | None = None
        try:
            for _ in range(REBIND_TRIES_MAX):
                outcome = await self._attempt(progress)
                if outcome is not None:
                    break
            else:
                moving = Problem(5002, "the world moved too often under this call", "try again")
                outcome = self._unrecorded(progress, moving)
        except StorageError as error:
            outcome = self._unrecorded(progress, error.problem)
        except Exception as error:
            _log.exception("the gate itself failed on call %s", progress.call_id)
            problem = Problem(2003, f"the gate itself failed: {type(error).__name__}")
            outcome = self._unrecorded(progress, problem)
        finally:
            progress.release()
            self._end(progress, outcome)
        return outcome

    def _end(self, progress: Progress, outcome: Outcome | None) -> None:
        """Tell who waits and who watches; there is no outcome where the way was broken off."""
        progress.end(outcome)
        self.observer.ended(progress.call_id, progress.request.tool, outcome, progress.stages)

    async def _attempt(self, progress: Progress) -> Outcome | None:
        """From bind to settle; None where the state moved so that the verdict must be reached again."""
        progress.attempts += 1
        if progress.question is None and self._stages.binder.changes_state(progress.request.tool):
            reached = await self._take_turn(progress)
            if not isinstance(reached, Unfit):
                return reached
        judge = self.judge
        judged = await self._decide(progress, await self._bind(progress, judge), judge)
        del judge  # a call that is held keeps no policy
        if isinstance(judged, Problem):
            return await self._unjudged(progress, judged)
        if judged[1].decision is ASK and not await self._is_granted(progress, judged):
            agreed = await self._hold(progress, judged)
            if isinstance(agreed, Outcome):
                return agreed
            judged = agreed
            paused = await self._paused()
            if paused:
                return await self._settle(progress, *judged, Ending.denied(paused))
        prepared, verdict = judged
        if verdict.problem is not None:
            return await self._settle(progress, prepared, verdict, Ending.denied(verdict.problem))
        late = self._run_is_over(progress)
        if late is not None:
            return await self._settle(progress, prepared, verdict, Ending.denied(late))
        if prepared.transition is not None:
            return await self._perform_pure(progress, prepared, verdict)
        progress.stages.append(("perform", self.clock.monotonic()))
        if needs_intent(prepared.declaration):
            intended = await self._intend(progress, prepared, verdict)
            if not isinstance(intended, tuple):
                return intended
            prepared, verdict = intended
        ending = await self._stages.performer.act(prepared)
        if not isinstance(ending, Ending):
            ending, verdict = await self._committing.ending(progress, prepared, verdict, ending)
        return await self._settle_or_move(progress, prepared, verdict, ending)

    async def _judge(self, progress: Progress, state: ProjectState | None = None) -> Judged | Problem:
        """Bind and decide, under one policy."""
        judge = self.judge
        return await self._decide(progress, await self._bind(progress, judge, state), judge)

    def _bind(
        self, progress: Progress, judge: Judge, state: ProjectState | None = None
    ) -> Awaitable[Prepared | Problem]:
        progress.release()
        if progress.grant:
            progress.lose_grant()  # it is looked for anew, and may not be there or not be needed any more
        own = (
            tuple([replace(charge, amount=-charge.amount) for charge in progress.reserved]) if progress.reserved else ()
        )
        progress.stages.append(("bind", self.clock.monotonic()))
        args_json, progress.args_json = progress.args_json, None
        return self._stages.binder.bind(progress.request, progress.args, progress.call_id, judge, state, own, args_json)

    async def _decide(self, progress: Progress, prepared: Prepared | Problem, judge: Judge) -> Judged | Problem:
        """What a person has agreed to must still be what would be done."""
        if isinstance(prepared, Problem):
            return prepared
        progress.bound = prepared
        progress.stages.append(("decide", self.clock.monotonic()))
        if progress.question is not None and progress.question.bound_hash != prepared.call.bound_hash:
            return Problem(1015, "changed since shown: the approval is void", "make the call again", "hold")
        verdict = await decided(prepared, judge)
        return verdict if isinstance(verdict, Problem) else (prepared, verdict)

    async def _unjudged(self, progress: Progress, problem: Problem) -> Outcome:
        """A call that could not be judged; one that was already shown to a person ends as what was shown."""
        if progress.shown is None:
            return await self._settle_unbound(progress, problem)
        denied = problem.code < 2000
        ending = Ending.denied(problem) if denied else Ending.failed(problem, acted=False)
        return await self._settle(progress, *progress.shown, ending)

    async def _is_granted(self, progress: Progress, judged: Judged) -> bool:
        """Whether a person agreed beforehand; a question that was put waits for its own answer."""
        grant = None if progress.held else await self._stages.holder.granted(*judged)
        if grant is not None:
            progress.agree_by(grant, self.clock.now())
        return grant is not None

    async def _paused(self) -> Problem | None:
        paused = await self.ledger.status(GATE_PROJECT) == "paused"
        return closed_problem(GATE_PROJECT, "paused") if paused else None

    async def _hold(self, progress: Progress, judged: Judged) -> Judged | Outcome:
        """Ask until somebody agreed to what would be done now; bind and decide run again after each yes."""
        prepared, verdict = judged
        while verdict.decision is Decision.ASK and not (progress.agreed and covers(progress.question, verdict)):
            progress.stages.append(("hold", self.clock.monotonic()))
            asked = await self._put_question(progress, prepared, verdict)
            if isinstance(asked, Outcome):
                return asked
            progress.tell_impatient()
            progress.release()
            resolution = progress.resolution = await self._wait_for_answer(asked)
            if resolution is None:
                return still_open(asked)
            if resolution.how != "approved":
                return await self._settle(progress, prepared, verdict, Ending.denied(refusal(resolution)))
            progress.agreed = True
            again = await self._judge(progress)
            if isinstance(again, Problem):
                return await self._unjudged(progress, again)
            prepared, verdict = again
        return prepared, verdict

    async def _wait_for_answer(self, question: Question) -> Resolution | None:
        """None where the gate closes first: the question stays open."""
        task = asyncio.current_task()
        if self._closing or task is None:
            return None
        self._waiting.add(task)
        try:
            return await self._stages.holder.wait(question)
        except asyncio.CancelledError:
            if self._closing:
                task.uncancel()
                return None
            raise
        finally:
            self._waiting.discard(task)

    async def _put_question(self, progress: Progress, prepared: Prepared, verdict: Verdict) -> Question | Outcome:
        """A new question, unless one is still unanswered; the outcome where it may not be put."""
        if progress.question is None or progress.agreed:
            charges = outstanding(prepared.charges, progress.reserved)
            asked = await self._stages.holder.ask(
                prepared, verdict, progress.claim, progress.question, charges, started_at=progress.started_at
            )
            if isinstance(asked, Problem):
                return await self._settle(progress, prepared, verdict, Ending.denied(asked))
            if not isinstance(asked, Question):
                return await self._refused(progress, prepared, verdict, asked)
            progress.question, progress.agreed = asked, False
            progress.reserved += charges
        progress.shown = prepared, verdict
        return progress.question

    async def _intend(self, progress: Progress, prepared: Prepared, verdict: Verdict) -> Judged | Outcome | None:
        """What to do, its intent durable; else the outcome, or None where what was judged has moved before."""
        try:
            kept = await self._stages.performer.keep(prepared)
            if isinstance(kept, Ending):
                return await self._settle(progress, prepared, verdict, kept)
            if not prepared.needs_state:
                committing = self._commit_intent(progress, prepared, verdict, kept)
            else:
                async with self._turn(progress) as state:
                    if state.ref != prepared.state.ref:
                        again = await self._judge_to_act(progress, state)
                        if again is None:
                            return None
                        prepared, verdict, kept = again
                    committing = self._commit_intent(progress, prepared, verdict, kept, state.ref)
        except Moved:
            return None
        committed = await committing
        if isinstance(committed, Applied):
            return prepared, verdict
        if isinstance(committed, GrantSpent):
            progress.lose_grant()
            return None
        if isinstance(committed, StateMoved):
            return None
        return await self._refused(progress, prepared, verdict, committed)

    async def _judge_to_act(
        self, progress: Progress, state: ProjectState
    ) -> tuple[Prepared, Verdict, bytes | None] | None:
        """Anew, in the turn in which the intent is written, so that a state that never rests lets the call pass.

        Only where the state has moved often before, because others wait meanwhile; None where that is not so, or where
        the call may not simply go on.
        """
        if not self._stands_alone(progress):
            return None
        judged = await self._judge(progress, state)
        if isinstance(judged, Problem) or judged[1].problem is not None or not await self._may_go_on(progress, judged):
            return None
        progress.stages.append(("perform", self.clock.monotonic()))
        kept = await self._stages.performer.keep(judged[0])
        return None if isinstance(kept, Ending) else (*judged, kept)

    def _commit_intent(
        self,
        progress: Progress,
        prepared: Prepared,
        verdict: Verdict,
        kept: bytes | None,
        stands_on: StateRef | None = None,
    ) -> Awaitable[Committed]:
        claim = None if progress.held else progress.claim
        charges = outstanding(prepared.charges, progress.reserved)
        started_at = None if progress.held else progress.started_at
        granted = progress.resolution_fields() if progress.grant else None
        side_tables = self._use_of_grant(progress)
        intending = self._stages.performer.intend(
            prepared, verdict, claim, charges, started_at, kept, granted, side_tables, stands_on
        )
        return self._intended(progress, charges, intending)

    @staticmethod
    async def _intended(progress: Progress, charges: tuple[Charge, ...], intending: Awaitable[Committed]) -> Committed:
        committed = await intending
        if isinstance(committed, Applied):
            progress.opened = True
            progress.reserved += charges
        return committed

    def _use_of_grant(self, progress: Progress) -> tuple[Change, ...]:
        if progress.grant is None:
            return ()
        return (self._stages.holder.use(progress.grant, progress.call_id),)

    def _left_behind(self, progress: Progress) -> tuple[Change, ...]:
        """An outcome that nobody is there to take waits for its agent."""
        progress.promised = not progress.is_left_alone
        return () if progress.promised else (self._leaving(progress),)

    def _leaving(self, progress: Progress) -> LeaveResult:
        request = progress.request
        return LeaveResult(request.agent.id, progress.call_id, request.request_id, iso(self.clock.now()))

    async def _leave_behind(self, progress: Progress) -> None:
        """Who was to take the outcome left in that very moment."""
        await self.ledger.commit(Work(GATE_PROJECT, changes=(self._leaving(progress),)))

    async def _perform_pure(self, progress: Progress, prepared: Prepared, verdict: Verdict) -> Outcome | None:
        """What only looks needs no turn: it has seen the state that it was bound on."""
        if not prepared.registered.only_looks:
            reached = await self._take_turn(progress, (prepared, verdict))
            return None if isinstance(reached, Unfit) else reached
        progress.stages.append(("perform", self.clock.monotonic()))
        ending = await self._stages.performer.transit(prepared, prepared.state, None)
        return await self._settle_or_move(progress, prepared, verdict, ending)

    async def _take_turn(self, progress: Progress, judged: Judged | None = None) -> Outcome | Unfit | None:
        """A change of the state, judged and computed on the state that it stands on; None where that never came about.

        The next one has its turn as soon as this one is handed to the ledger.
        """
        schema = await self.ledger.state_schema(progress.request.project)
        async with self._turn(progress) as state:
            if judged is None or judged[0].state.ref != state.ref:
                again = await self._judge(progress, state)
                if isinstance(again, Problem) or not await self._may_go_on(progress, again):
                    return UNFIT
                judged = again
            prepared, verdict = judged
            progress.stages.append(("perform", self.clock.monotonic()))
            refused = verdict.problem or self._run_is_over(progress)
            if refused is not None:
                ending = Ending.denied(refused)
            else:
                ending = await self._stages.performer.transit(prepared, state, schema)
            settling = self._settling(progress, prepared, verdict, ending, state.ref)
        return await self._settled(progress, prepared, verdict, *settling)

    def _turn(self, progress: Progress) -> AbstractAsyncContextManager[ProjectState]:
        return self.ledger.turn(progress.request.project, alone=self._stands_alone(progress))

    @staticmethod
    def _stands_alone(progress: Progress) -> bool:
        """A call that others' changes have thrown back stands on none that is not committed."""
        return progress.attempts > REBIND_TRIES_AMONG_OTHERS

    async def _may_go_on(self, progress: Progress, judged: Judged) -> bool:
        """Whether nobody has to be asked first."""
        verdict = judged[1]
        if verdict.decision is not ASK or (progress.agreed and covers(progress.question, verdict)):
            return True
        return await self._is_granted(progress, judged)

    def _run_is_over(self, progress: Progress) -> Problem | None:
        ends_at = progress.request.run_ends_at
        return None if ends_at is None or self.clock.monotonic() < ends_at else run_timeout("perform")

    async def _settle(self, progress: Progress, prepared: Prepared, verdict: Verdict, ending: Ending) -> Outcome:
        outcome = await self._settle_or_move(progress, prepared, verdict, ending)
        assert outcome is not None, "only settling a performance can find that it must be judged again"
        return outcome

    async def _settle_or_move(
        self, progress: Progress, prepared: Prepared, verdict: Verdict, ending: Ending
    ) -> Outcome | None:
        settling = self._settling(progress, prepared, verdict, ending)
        return await self._settled(progress, prepared, verdict, *settling)

    def _settling(
        self,
        progress: Progress,
        prepared: Prepared,
        verdict: Verdict,
        ending: Ending,
        stands_on: StateRef | None = None,
    ) -> Settling:
        """Hand the outcome to the ledger."""
        progress.stages.append(("settle", self.clock.monotonic()))
        side_tables = self._left_behind(progress)
        if progress.grant and ending.acted and not progress.opened:
            side_tables += self._use_of_grant(progress)
        return self._stages.settler.settle(
            prepared,
            verdict,
            ending,
            progress.started_at,
            progress.claim,
            progress.opened,
            progress.held,
            progress.reserved,
            progress.resolution_fields() if progress.resolution else None,
            side_tables,
            stands_on,
        )

    async def _settled(
        self,
        progress: Progress,
        prepared: Prepared,
        verdict: Verdict,
        outcome: Outcome,
        committing: Awaitable[Committed],
        effect_id: str | None,
    ) -> Outcome | None:
        """The outcome, once it is committed; None where the call must be judged again."""
        committed = await committing
        if isinstance(committed, Applied):
            if effect_id is not None:
                self._start(self._stages.effects.run(prepared, outcome, effect_id))
            return outcome
        if isinstance(committed, GrantSpent):
            progress.lose_grant()
            return None
        if isinstance(committed, StateMoved):
            return None
        return await self._refused(progress, prepared, verdict, committed)

    async def _refused(self, progress: Progress, prepared: Prepared, verdict: Verdict, committed: Committed) -> Outcome:
        """The ledger had the last word: what was there at bind is not there at commit."""
        match committed:
            case NoRoom(charge, used):
                return await self._settle(progress, prepared, verdict, Ending.denied(no_room(charge, used)))
            case NotOpen(status):
                problem = closed_problem(progress.request.project, status)
                return await self._settle(progress, prepared, verdict, Ending.denied(problem))
            case RequestTaken(call_id, input_hash):
                assert progress.claim is not None
                progress.promised = False  # the outcome that is told now is another call's
                if input_hash == progress.claim.input_hash:
                    return await self._outcome_of_other(call_id, progress.request.wait)
                problem = other_arguments(progress.claim.request_id)
                progress.claim = None
                return await self._settle(progress, prepared, verdict, Ending.failed(problem, acted=False))
            case Undone() as undone:
                return await self._settle(progress, prepared, verdict, Ending.failed(undone.problem, acted=False))
            case AlreadyClosed(call_id):
                return await self._outcome_of_other(call_id, wait=False)
            case _:
                raise AssertionError(f"not an answer to settling: {committed}")

    async def _settle_unbound(self, progress: Progress, problem: Problem) -> Outcome:
        progress.stages.append(("settle", self.clock.monotonic()))
        outcome, committed = await self._stages.settler.settle_unbound(
            progress.request,
            progress.call_id,
            self.recordable(progress.request.tool, progress.args),
            problem,
            started_at=progress.started_at,
            admitted=True,
            claim=progress.claim,
            held=progress.held,
            reserved=progress.reserved,
            side_tables=self._left_behind(progress),
        )
        if not isinstance(committed, RequestTaken):
            return outcome
        progress.promised = False
        assert progress.claim is not None
        if committed.input_hash == progress.claim.input_hash:
            return await self._outcome_of_other(committed.call_id, progress.request.wait)
        problem = other_arguments(progress.claim.request_id)
        progress.claim = None
        return await self._settle_unbound(progress, problem)

    def _unrecorded(self, progress: Progress, problem: Problem) -> Outcome:
        """The ledger cannot be written: an act that had begun is in doubt, anything else did not happen."""
        if progress.nothing_done:
            problem = replace(problem, detail=f"nothing was written, which could not be recorded: {problem.detail}")
        elif progress.opened:
            problem = replace(problem, detail=f"performed, but its outcome could not be recorded: {problem.detail}")
        return Outcome(
            call_id=progress.call_id,
            request_id=progress.request.request_id or "",
            status=Status.UNKNOWN if progress.opened and not progress.nothing_done else Status.ERROR,
            error=problem.at("settle"),
            started_at=progress.started_at,
            ended_at=self.clock.now(),
            tool=progress.request.tool,
            args=self.recordable(progress.request.tool, progress.args),
        )
