"""Gate: drives one call through the six stages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from agent_gate.model.approval import Answer, Approver, Question
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.charge import Charge
from agent_gate.model.codec import restore
from agent_gate.model.ending import Ending
from agent_gate.model.entry import (
    AlreadyClosed,
    Applied,
    Claim,
    Committed,
    NoRoom,
    NotOpen,
    ProjectState,
    RequestTaken,
    StateMoved,
)
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.limits import JOIN_LATE_POLLS_MAX, JOIN_POLLS_MAX, REBIND_TRIES_MAX
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.record import outcome_of, output_blob, reason_of, reserved_by
from agent_gate.model.tool import Effect, Json, Mode
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.pipeline.admit import Admission, Admitted, Repeated, Turned, closed_problem, other_arguments
from agent_gate.pipeline.bind import Binder
from agent_gate.pipeline.decide import decide
from agent_gate.pipeline.effects import Effects
from agent_gate.pipeline.hold import NEWS_WAIT_S, Holder, Resolution
from agent_gate.pipeline.perform import Performer, needs_intent
from agent_gate.pipeline.settle import Settler
from agent_gate.pipeline.tally import Tally
from agent_gate.policy.judge import Judge
from agent_gate.policy.layers import no_room
from agent_gate.policy.limits import outstanding
from agent_gate.ports import Clock, Ids, Ledger, Prepared, Tools

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Judged: TypeAlias = tuple[Prepared, Verdict]


@dataclass(slots=True)
class Passage:
    """One call on its way: what it has reached so far."""

    request: CallRequest
    call_id: str
    args: Mapping[str, Json]
    started_at: float
    claim: Claim | None
    pending: asyncio.Future[Outcome]
    """Resolved when a question is put, for a caller that does not wait."""
    opened: bool = False
    question: Question | None = None
    """The last one that was put."""
    agreed: bool = False
    """Whether it was answered with yes."""
    shown: Judged | None = None
    """What the question was about."""
    resolution: Resolution | None = None
    reserved: tuple[Charge, ...] = ()
    """What the ledger already counts for this call."""
    bound: Prepared | None = None
    waiters: list[asyncio.Future[Outcome]] = field(default_factory=list)
    """One for each caller, so that one who gives up takes nothing from the others."""

    def release(self) -> None:
        """Give back what binding holds; nothing is held while a person thinks."""
        if self.bound is not None:
            self.bound.release()
            self.bound = None

    @property
    def held(self) -> bool:
        return self.question is not None


@dataclass(frozen=True, slots=True)
class Imagined:
    """Where a simulation has come to: the virtual state, and what its steps so far would have counted against."""

    state: ProjectState
    charges: tuple[Charge, ...] = ()


@dataclass(frozen=True, slots=True)
class Stages:
    admission: Admission
    binder: Binder
    holder: Holder
    performer: Performer
    settler: Settler
    effects: Effects
    tally: Tally


class Gate:
    """The one way from an agent's wish to a recorded outcome."""

    def __init__(
        self, stages: Stages, judge: Judge, tools: Tools, ledger: Ledger, clock: Clock, ids: Ids, agent: Agent
    ) -> None:
        self.judge = judge
        self.tools = tools
        self.ledger = ledger
        self.agent = agent
        self.clock = clock
        self.ids = ids
        self._stages = stages
        self._tasks: set[asyncio.Task[Any]] = set()
        self._by_call: dict[str, asyncio.Task[Outcome]] = {}
        self._under_way: dict[tuple[str, str], tuple[Passage, asyncio.Task[Outcome]]] = {}
        self._waiting: set[asyncio.Task[Any]] = set()
        """Calls that wait for a person; the gate does not wait for them when it closes."""
        self._taking_over = asyncio.Lock()
        self._closing = False

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json] | None = None,
        /,
        *,
        project: str = "default",
        request_id: str | None = None,
        confirmed: bool = False,
        mode: str | None = None,
        wait: bool = True,
        agent: Agent | None = None,
        **arguments: Json,
    ) -> Outcome:
        """Put one call through all six stages; arguments are given as a mapping or by name."""
        request = CallRequest(
            agent or self.agent,
            tool,
            {**(args or {}), **arguments},
            project,
            request_id,
            confirmed,
            mode_named(mode),
            wait=wait,
        )
        return await self.submit(request)

    async def submit(self, request: CallRequest) -> Outcome:
        """A request as a door hands it over. The call goes on when the caller is cancelled: it is never half-done."""
        call_id, started_at = self.ids.new(), self.clock.now()
        try:
            return await self._submit(request, call_id, started_at)
        except StorageError as error:
            return self._stages.settler.refusal(request, call_id, error.problem.at("admit"), started_at)

    async def _submit(self, request: CallRequest, call_id: str, started_at: float) -> Outcome:
        if self._closing:
            raise StorageError("the gate is closed", suggestion="open it again")
        if self._run_is_over(request):
            return await self.refuse(request, _run_timeout("admit"))
        admitted = await self._stages.admission.admit(request, call_id)
        if isinstance(admitted, Repeated):
            return await self._repeat(request, admitted)
        if isinstance(admitted, Turned):
            return await self._turn_away(request, call_id, admitted, started_at)
        claim = admitted.claim
        if claim is not None and (same := self._under_way.get((claim.agent_id, claim.request_id))):
            return await self._join(*same, claim, request, call_id, started_at)
        pending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        passage = Passage(request, call_id, admitted.args, started_at, claim, pending)
        return await self._follow(passage, self._set_out(passage), request.wait)

    def _set_out(self, passage: Passage) -> asyncio.Task[Outcome]:
        request, call_id = passage.request, passage.call_id
        task = self._by_call[call_id] = self._start(self._go(passage))
        task.add_done_callback(lambda _: self._by_call.pop(call_id, None))
        if request.request_id is not None:
            key = request.agent.id, request.request_id
            self._under_way[key] = passage, task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task

    async def _follow(self, passage: Passage, task: asyncio.Task[Outcome], wait: bool) -> Outcome:
        if wait and not task.done():
            waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            passage.waiters.append(waiter)
            return await waiter
        await asyncio.wait({task, passage.pending}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else passage.pending.result()

    async def simulate(
        self, request: CallRequest, so_far: Imagined | None = None, *, with_reads: bool = False
    ) -> tuple[Outcome, Imagined | None]:
        """What would happen: nothing is written, nobody asked. Pure tools run on a virtual state, which goes on."""
        request = replace(request, simulate=True)
        admitted = await self._stages.admission.admit(replace(request, request_id=None), "")
        if isinstance(admitted, Turned):
            return replace(self._refusal(request, admitted.problem), simulated=True), so_far
        assert isinstance(admitted, Admitted)
        if so_far is None:
            so_far = Imagined(await self.ledger.state(request.project))
        judge, state = self.judge, so_far.state
        prepared = await self._stages.binder.bind(request, admitted.args, "", judge, state, so_far.charges)
        if isinstance(prepared, Problem):
            return replace(self._refusal(request, prepared), simulated=True), so_far
        verdict = decide(prepared, judge)
        try:
            ending = await self._simulated_ending(prepared, verdict, state, with_reads)
        finally:
            prepared.release()
        outcome = replace(
            self._stages.settler.outcome(prepared, verdict, ending, self.clock.now(), None), simulated=True
        )
        if ending.status is not Status.SUCCESS:
            return outcome, so_far
        charges = (*so_far.charges, *prepared.charges)
        if ending.next_state is None:
            return outcome, Imagined(state, charges)
        moved = ProjectState(state.version + 1, restore(ending.next_state.document))
        outcome = replace(outcome, state_version=moved.version, state_diff=ending.next_state.diff)
        return outcome, Imagined(moved, charges)

    async def _simulated_ending(
        self, prepared: Prepared, verdict: Verdict, state: ProjectState, with_reads: bool
    ) -> Ending:
        if verdict.problem is not None:
            return Ending.denied(verdict.problem)
        if verdict.decision is Decision.ASK:
            return Ending(Status.PENDING_APPROVAL, message="a person would have to agree")
        if prepared.transition is not None:
            schema = await self.ledger.state_schema(prepared.call.request.project)
            return self._stages.performer.transit(prepared, state, schema)
        if with_reads and prepared.declaration.effect is Effect.READ:
            return await self._stages.performer.act(prepared)
        return Ending(Status.SUCCESS, message="allowed, and not performed in a simulation")

    def recordable(self, tool: str, args: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """What may be written down of arguments that are not bound: without the tool's secrets."""
        return self._stages.binder.recordable(tool, args)

    async def refuse(self, request: CallRequest, problem: Problem) -> Outcome:
        """Record that a call could not even be made: the run that it belongs to knows why."""
        call_id, started_at = self.ids.new(), self.clock.now()
        args = self.recordable(request.tool, request.args)
        try:
            outcome, _ = await self._stages.settler.settle_unbound(
                request, call_id, args, problem, started_at=started_at, admitted=True
            )
        except StorageError as error:
            return self._stages.settler.refusal(request, call_id, error.problem.at("settle"), started_at)
        return outcome

    async def answer(self, call_id: str, *, approve: bool, by: Approver, nonce: str | None = None) -> None:
        """A person's yes or no; raises where it does not count."""
        found = await self.ledger.question(call_id)
        shown = nonce if nonce is not None else found[0].nonce if found else ""
        problem = await self._stages.holder.answer(Answer(call_id, shown, approve, by, self.clock.now()))
        if problem:
            raise GateError.of(problem)

    async def result(self, call_id: str) -> Outcome | None:
        """The outcome of a call, once it has one; None where this process does not work on it and none is recorded."""
        task = self._by_call.get(call_id)
        if task is not None:
            return await asyncio.shield(task)
        return await self._recorded(call_id)

    async def _recorded(self, call_id: str) -> Outcome | None:
        entries = await self.ledger.entries_of(call_id)
        return outcome_of(entries, await self.ledger.blob(output_blob(call_id)))

    async def close(self) -> None:
        """Let what runs settle; questions stay open in the ledger, and who waits for one is told that it is pending."""
        if self._closing:
            return
        self._closing = True
        for task in self._waiting:
            task.cancel()
        while self._tasks:  # a call that ends may leave its effect behind
            await asyncio.wait(self._tasks)
        await self._stages.tally.close()

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _refusal(self, request: CallRequest, problem: Problem) -> Outcome:
        return self._stages.settler.refusal(request, "", problem, self.clock.now())

    async def _turn_away(self, request: CallRequest, call_id: str, turned: Turned, started_at: float) -> Outcome:
        if not turned.recorded:
            self._stages.tally.count(request.agent.id, turned.problem)
            return self._stages.settler.refusal(request, call_id, turned.problem, started_at)
        args = self.recordable(request.tool, turned.args) if turned.args else None
        outcome, _ = await self._stages.settler.settle_unbound(
            request, call_id, args, turned.problem, started_at=started_at, admitted=False
        )
        return outcome

    async def _join(
        self,
        passage: Passage,
        task: asyncio.Task[Outcome],
        claim: Claim,
        request: CallRequest,
        call_id: str,
        started_at: float,
    ) -> Outcome:
        assert passage.claim is not None
        if passage.claim.input_hash != claim.input_hash:
            turned = Turned(other_arguments(claim.request_id))
            return await self._turn_away(request, call_id, turned, started_at)
        return await self._follow(passage, task, request.wait)

    async def _repeat(self, request: CallRequest, repeated: Repeated) -> Outcome:
        assert request.request_id is not None
        key = request.agent.id, request.request_id
        same = self._under_way.get(key)
        if same is None and await self.ledger.abandoned_by(repeated.call_id):
            async with self._taking_over:
                same = self._under_way.get(key) or await self._take_over(request, repeated)
        if same is None:
            return await self._outcome_of_other(repeated.call_id, request.wait)
        return await self._follow(*same, request.wait)

    async def _take_over(
        self, request: CallRequest, repeated: Repeated
    ) -> tuple[Passage, asyncio.Task[Outcome]] | None:
        """A held call that nobody works on any more, made again: it goes on from its question.

        None where another process was faster.
        """
        call_id = repeated.call_id
        gone, found = await self.ledger.abandoned_by(call_id), await self.ledger.question(call_id)
        if gone is None or found is None:
            return None
        earlier = await self.ledger.entries_of(call_id)
        if not isinstance(await self._stages.holder.take_over(found[0], earlier, gone), Applied):
            return None
        pending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        passage = Passage(request, call_id, repeated.args, found[0].created_at, None, pending)
        passage.question, passage.reserved = found[0], reserved_by(earlier)
        return passage, self._set_out(passage)

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
                answer = _still_open(found[0])
                late_polls += self.clock.now() >= found[0].expires_at
            if not wait or late_polls > JOIN_LATE_POLLS_MAX:
                break
            await self.ledger.wait_for_answer(call_id, NEWS_WAIT_S)
        return answer

    async def _go(self, passage: Passage) -> Outcome:
        """The whole way; who waits is told from here, a turn of the event loop sooner than by the task's end."""
        try:
            outcome = await self._drive(passage)
        except BaseException:
            for waiter in passage.waiters:
                waiter.cancel()
            raise
        for waiter in passage.waiters:
            if not waiter.done():
                waiter.set_result(outcome)
        return outcome

    async def _drive(self, passage: Passage) -> Outcome:
        try:
            for _ in range(REBIND_TRIES_MAX):
                outcome = await self._attempt(passage)
                if outcome is not None:
                    return outcome
        except StorageError as error:
            return self._unrecorded(passage, error.problem)
        except Exception as error:
            _log.exception("the gate itself failed on call %s", passage.call_id)
            return self._unrecorded(passage, Problem(2003, f"the gate itself failed: {type(error).__name__}"))
        finally:
            passage.release()
        return self._unrecorded(passage, Problem(5002, "the state moved too often under this call", "try again"))

    async def _attempt(self, passage: Passage) -> Outcome | None:
        """From bind to settle; None where the state moved so that the verdict must be reached again."""
        judged = await self._judge(passage)
        if isinstance(judged, Problem):
            return await self._unjudged(passage, judged)
        if judged[1].decision is Decision.ASK:
            agreed = await self._hold(passage, judged)
            if isinstance(agreed, Outcome):
                return agreed
            judged = agreed
        prepared, verdict = judged
        if verdict.problem is not None:
            return await self._settle(passage, prepared, verdict, Ending.denied(verdict.problem))
        if self._run_is_over(passage.request):
            return await self._settle(passage, prepared, verdict, Ending.denied(_run_timeout("perform")))
        if prepared.transition is not None:
            return await self._perform_pure(passage, prepared, verdict)
        return await self._perform(passage, prepared, verdict)

    async def _judge(self, passage: Passage, state: ProjectState | None = None) -> Judged | Problem:
        """Bind and decide, under one policy; what a person has agreed to must still be what would be done."""
        passage.release()
        judge = self.judge
        own = tuple(replace(charge, amount=-charge.amount) for charge in passage.reserved)
        prepared = await self._stages.binder.bind(passage.request, passage.args, passage.call_id, judge, state, own)
        if isinstance(prepared, Problem):
            return prepared
        passage.bound = prepared
        if passage.question is not None and passage.question.bound_hash != prepared.call.bound_hash:
            return Problem(1015, "changed since shown: the approval is void", "make the call again", "hold")
        return prepared, decide(prepared, judge)

    async def _unjudged(self, passage: Passage, problem: Problem) -> Outcome:
        """A call that could not be judged; one that was already shown to a person ends as what was shown."""
        if passage.shown is None:
            return await self._settle_unbound(passage, problem)
        denied = problem.code < 2000
        ending = Ending.denied(problem) if denied else Ending.failed(problem, acted=False)
        return await self._settle(passage, *passage.shown, ending)

    async def _hold(self, passage: Passage, judged: Judged) -> Judged | Outcome:
        """Ask until somebody agreed to what would be done now; bind and decide run again after each yes."""
        prepared, verdict = judged
        while verdict.decision is Decision.ASK and not (passage.agreed and _covers(passage.question, verdict)):
            asked = await self._put_question(passage, prepared, verdict)
            if isinstance(asked, Outcome):
                return asked
            self._tell_pending(passage, verdict, asked)
            passage.release()
            resolution = passage.resolution = await self._wait_for_answer(asked)
            if resolution is None:
                return _still_open(asked)
            if resolution.how != "approved":
                return await self._settle(passage, prepared, verdict, Ending.denied(_refusal(resolution)))
            passage.agreed = True
            again = await self._judge(passage)
            if isinstance(again, Problem):
                return await self._unjudged(passage, again)
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
                return None
            raise
        finally:
            self._waiting.discard(task)

    async def _put_question(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> Question | Outcome:
        """A new question, unless one is still unanswered; the outcome where it may not be put."""
        if passage.question is None or passage.agreed:
            charges = outstanding(prepared.charges, passage.reserved)
            asked = await self._stages.holder.ask(prepared, verdict, passage.claim, passage.question, charges)
            if isinstance(asked, Problem):
                return await self._settle(passage, prepared, verdict, Ending.denied(asked))
            if not isinstance(asked, Question):
                return await self._refused(passage, prepared, verdict, asked)
            passage.question, passage.agreed = asked, False
            passage.reserved += charges
        passage.shown = prepared, verdict
        return passage.question

    def _tell_pending(self, passage: Passage, verdict: Verdict, question: Question) -> None:
        if not passage.pending.done():
            passage.pending.set_result(
                replace(
                    _still_open(question),
                    request_id=passage.request.request_id or "",
                    reasons=verdict.reasons,
                    started_at=passage.started_at,
                )
            )

    async def _perform(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> Outcome | None:
        """The intent, the act, the outcome; None where the state that was judged has moved before the intent."""
        if needs_intent(prepared.declaration):
            kept = await self._stages.performer.keep(prepared)
            if isinstance(kept, Ending):
                return await self._settle(passage, prepared, verdict, kept)
            committed = await self._intend(passage, prepared, verdict, kept)
            if committed is None:
                return None
            if not isinstance(committed, Applied):
                return await self._refused(passage, prepared, verdict, committed)
        ending = await self._stages.performer.act(prepared)
        return await self._settle(passage, prepared, verdict, ending)

    async def _intend(
        self, passage: Passage, prepared: Prepared, verdict: Verdict, kept: bytes | None
    ) -> Committed | None:
        if not self.judge.needs_state(prepared.hand.declaration):
            return await self._commit_intent(passage, prepared, verdict, kept)
        project = passage.request.project
        async with self.ledger.lock_project(project):
            if (await self.ledger.state(project)).version != prepared.facts.state_version:
                return None
            return await self._commit_intent(passage, prepared, verdict, kept)

    async def _commit_intent(
        self, passage: Passage, prepared: Prepared, verdict: Verdict, kept: bytes | None
    ) -> Committed:
        claim = None if passage.held else passage.claim
        charges = outstanding(prepared.charges, passage.reserved)
        first = not passage.held
        committed = await self._stages.performer.intend(prepared, verdict, claim, charges, first, kept)
        if isinstance(committed, Applied):
            passage.opened = True
            passage.reserved += charges
        return committed

    async def _perform_pure(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> Outcome | None:
        """Under the project's lock; where the state moved since bind, bind and decide run again."""
        project = passage.request.project
        schema = await self.ledger.state_schema(project)
        async with self.ledger.lock_project(project):
            state = await self.ledger.state(project)
            if state.version != prepared.facts.state_version:
                again = await self._judge(passage, state)
                if isinstance(again, Problem):
                    return await self._unjudged(passage, again)
                prepared, verdict = again
                if verdict.decision is not Decision.ALLOW and not (
                    passage.agreed and _covers(passage.question, verdict)
                ):
                    return None
            ending = self._stages.performer.transit(prepared, state, schema)
            return await self._settle_or_move(passage, prepared, verdict, ending)

    async def _settle(self, passage: Passage, prepared: Prepared, verdict: Verdict, ending: Ending) -> Outcome:
        outcome = await self._settle_or_move(passage, prepared, verdict, ending)
        assert outcome is not None, "only a pure tool's settling can find the state moved"
        return outcome

    async def _settle_or_move(
        self, passage: Passage, prepared: Prepared, verdict: Verdict, ending: Ending
    ) -> Outcome | None:
        outcome, committed, effect_id = await self._stages.settler.settle(
            prepared,
            verdict,
            ending,
            started_at=passage.started_at,
            claim=passage.claim,
            opened=passage.opened,
            held=passage.held,
            reserved=passage.reserved,
            resolution=_resolution_fields(passage.resolution),
        )
        if isinstance(committed, Applied):
            if effect_id is not None:
                self._start(self._stages.effects.run(prepared, outcome, effect_id))
            return outcome
        if isinstance(committed, StateMoved):
            return None
        return await self._refused(passage, prepared, verdict, committed)

    async def _refused(self, passage: Passage, prepared: Prepared, verdict: Verdict, committed: Committed) -> Outcome:
        """The ledger had the last word: what was there at bind is not there at commit."""
        match committed:
            case NoRoom(charge, used):
                return await self._settle(passage, prepared, verdict, Ending.denied(no_room(charge, used)))
            case NotOpen(status):
                problem = closed_problem(passage.request.project, status)
                return await self._settle(passage, prepared, verdict, Ending.denied(problem))
            case RequestTaken(call_id, input_hash):
                assert passage.claim is not None
                if input_hash == passage.claim.input_hash:
                    return await self._outcome_of_other(call_id, passage.request.wait)
                problem = other_arguments(passage.claim.request_id)
                passage.claim = None
                return await self._settle(passage, prepared, verdict, Ending.failed(problem, acted=False))
            case AlreadyClosed(call_id):
                return await self._outcome_of_other(call_id, wait=False)
            case _:
                raise AssertionError(f"not an answer to settling: {committed}")

    async def _settle_unbound(self, passage: Passage, problem: Problem) -> Outcome:
        outcome, committed = await self._stages.settler.settle_unbound(
            passage.request,
            passage.call_id,
            self.recordable(passage.request.tool, passage.args),
            problem,
            started_at=passage.started_at,
            admitted=True,
            claim=passage.claim,
            held=passage.held,
            reserved=passage.reserved,
        )
        if not isinstance(committed, RequestTaken):
            return outcome
        assert passage.claim is not None
        if committed.input_hash == passage.claim.input_hash:
            return await self._outcome_of_other(committed.call_id, passage.request.wait)
        problem = other_arguments(passage.claim.request_id)
        passage.claim = None
        return await self._settle_unbound(passage, problem)

    def _run_is_over(self, request: CallRequest) -> bool:
        return request.run_ends_at is not None and self.clock.monotonic() >= request.run_ends_at

    def _unrecorded(self, passage: Passage, problem: Problem) -> Outcome:
        """The ledger cannot be written: an act that had begun is in doubt, anything else did not happen."""
        if passage.opened:
            problem = replace(problem, detail=f"performed, but its outcome could not be recorded: {problem.detail}")
        return Outcome(
            call_id=passage.call_id,
            request_id=passage.request.request_id or "",
            status=Status.UNKNOWN if passage.opened else Status.ERROR,
            error=problem.at("settle"),
            started_at=passage.started_at,
            ended_at=self.clock.now(),
        )


def mode_named(name: str | None) -> Mode | None:
    try:
        return Mode(name) if name else None
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise ToolError(f"mode `{name}` is unknown", code=2002, suggestion=f"write one of {modes}") from None


def _covers(approved: Question | None, verdict: Verdict) -> bool:
    """Whether what was approved is all that this verdict asks for: no other role, quorum or layer."""
    if approved is None:
        return False
    required = verdict.requirement
    shown_layers = {reason["layer"] for reason in approved.reasons}
    return (
        verdict.decision is Decision.ASK
        and all(Approver("", approved.approver_roles).has_role(role) for role in required.approver_roles)
        and required.approvers_required <= approved.approvers_required
        and all(reason.layer in shown_layers for reason in verdict.reasons)
    )


def _still_open(question: Question) -> Outcome:
    """The answer to who does not wait, or cannot: the call goes on when a person has decided."""
    return Outcome(
        call_id=question.call_id,
        request_id="" if question.request_id == question.call_id else question.request_id,
        status=Status.PENDING_APPROVAL,
        message="a person must agree",
        signatures=question.signatures,
        decision=Decision.ASK,
        reasons=tuple(reason_of(reason, Decision.ASK) for reason in question.reasons),
        started_at=question.created_at,
        expires_at=question.expires_at,
    )


def _run_timeout(stage: str) -> Problem:
    return Problem(1008, "the run's global timeout has passed", "raise global_timeout_seconds", stage)


def _refusal(resolution: Resolution) -> Problem:
    if resolution.how == "expired":
        return Problem(1016, "nobody answered in time", "make the call again when somebody is there", "hold")
    if resolution.how == "withdrawn":
        return Problem(1020, "the call was withdrawn before anybody answered", stage="hold")
    return Problem(1015, f"`{resolution.by}` said no", "ask them why", "hold")


def _resolution_fields(resolution: Resolution | None) -> dict[str, str] | None:
    if resolution is None:
        return None
    fields = {"resolution": resolution.how, "resolved_at": iso(resolution.at)}
    if resolution.by:
        fields["resolved_by"] = resolution.by
    return fields
