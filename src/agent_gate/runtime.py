"""Gate: drives one call through the six stages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agent_gate.model.approval import Answer, Approver, Question
from agent_gate.model.call import Agent, CallRequest
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
from agent_gate.model.errors import GateError, Problem, StorageError
from agent_gate.model.limits import REBIND_TRIES_MAX
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.record import outcome_of, output_blob
from agent_gate.model.tool import Effect, Json, Mode
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.pipeline.admit import Admission, Admitted, Repeated, Turned, closed_problem, other_arguments
from agent_gate.pipeline.bind import Binder
from agent_gate.pipeline.decide import decide
from agent_gate.pipeline.effects import Effects
from agent_gate.pipeline.hold import Holder, Resolution
from agent_gate.pipeline.perform import Performer, needs_intent
from agent_gate.pipeline.settle import Settler
from agent_gate.pipeline.tally import Tally
from agent_gate.policy.judge import Judge
from agent_gate.policy.layers import no_room
from agent_gate.ports import Clock, Ids, Ledger, Prepared, Tools

Result = TypeVar("Result")


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
    approved: Question | None = None
    resolution: Resolution | None = None
    bound: Prepared | None = None

    def release(self) -> None:
        """Give back what binding holds; nothing is held while a person thinks."""
        if self.bound is not None:
            self.bound.release()
            self.bound = None

    @property
    def held(self) -> bool:
        return self.approved is not None


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
        self._under_way: dict[tuple[str, str], tuple[str, asyncio.Task[Outcome]]] = {}

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
            Mode(mode) if mode else None,
            wait=wait,
        )
        return await self.submit(request)

    async def submit(self, request: CallRequest) -> Outcome:
        """A request as a door hands it over. The call goes on when the caller is cancelled: it is never half-done."""
        if request.time_left_s is not None and request.time_left_s <= 0:
            return await self.refuse(request, Problem(1008, "the run's global timeout has passed", stage="admit"))
        call_id, started_at = self.ids.new(), self.clock.now()
        admitted = await self._stages.admission.admit(request, call_id)
        if isinstance(admitted, Repeated):
            return await self._outcome_of_other(admitted.call_id)
        if isinstance(admitted, Turned):
            return await self._turn_away(request, call_id, admitted, started_at)
        claim = admitted.claim
        if claim is not None:
            same = self._under_way.get((claim.agent_id, claim.request_id))
            if same is not None:
                return await self._join(same, claim, request, call_id, started_at)
        pending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        passage = Passage(admitted.request, call_id, admitted.args, started_at, claim, pending)
        task = self._by_call[call_id] = self._start(self._drive(passage))
        task.add_done_callback(lambda _: self._by_call.pop(call_id, None))
        if claim is not None:
            key = claim.agent_id, claim.request_id
            self._under_way[key] = claim.input_hash, task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        if request.wait:
            return await asyncio.shield(task)
        await asyncio.wait({task, pending}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else pending.result()

    async def simulate(
        self, request: CallRequest, state: ProjectState | None = None, *, with_reads: bool = False
    ) -> tuple[Outcome, ProjectState | None]:
        """What would happen: nothing is written, nobody asked. Pure tools run on `state`, which goes on to the next."""
        request = replace(request, simulate=True)
        admitted = await self._stages.admission.admit(replace(request, request_id=None), "")
        if isinstance(admitted, Turned):
            return replace(self._refusal(request, admitted.problem), simulated=True), state
        assert isinstance(admitted, Admitted)
        if state is None:
            state = await self.ledger.state(request.project)
        prepared = await self._stages.binder.bind(request, admitted.args, "", self.judge, state)
        if isinstance(prepared, Problem):
            return replace(self._refusal(request, prepared), simulated=True), state
        verdict = decide(prepared, self.judge)
        ending = await self._simulated_ending(prepared, verdict, state, with_reads)
        outcome = self._stages.settler.outcome(prepared, verdict, ending, self.clock.now(), None)
        if ending.next_state is None:
            return replace(outcome, simulated=True), state
        moved = ProjectState(state.version + 1, restore(ending.next_state.document))
        return (
            replace(outcome, simulated=True, state_version=moved.version, state_diff=ending.next_state.diff),
            moved,
        )

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

    async def refuse(self, request: CallRequest, problem: Problem) -> Outcome:
        """Record that a call could not even be made: the run that it belongs to knows why."""
        outcome, _ = await self._stages.settler.settle_unbound(
            request, self.ids.new(), request.args, problem, started_at=self.clock.now(), admitted=True
        )
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
        entries = await self.ledger.entries_of(call_id)
        return outcome_of(entries, await self.ledger.blob(output_blob(call_id)))

    async def close(self) -> None:
        """Let what runs settle; questions stay open in the ledger."""
        held = [task for task in self._tasks if task.get_name() == "held"]
        for task in held:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._stages.tally.close()
        await self.ledger.close()

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
        outcome, _ = await self._stages.settler.settle_unbound(
            request, call_id, turned.args, turned.problem, started_at=started_at, admitted=False
        )
        return outcome

    async def _join(
        self,
        same: tuple[str, asyncio.Task[Outcome]],
        claim: Claim,
        request: CallRequest,
        call_id: str,
        started_at: float,
    ) -> Outcome:
        input_hash, task = same
        if input_hash != claim.input_hash:
            turned = Turned(other_arguments(claim.request_id))
            return await self._turn_away(request, call_id, turned, started_at)
        return await asyncio.shield(task)

    async def _outcome_of_other(self, call_id: str) -> Outcome:
        """The outcome of the call that had this request first; the wait for it is joined."""
        found = await self.ledger.question(call_id)
        if found is not None:
            question = found[0]
            return Outcome(
                call_id=call_id,
                request_id=question.request_id,
                status=Status.PENDING_APPROVAL,
                signatures=question.signatures,
                decision=Decision.ASK,
                expires_at=question.expires_at,
            )
        outcome = await self.result(call_id)
        if outcome is not None:
            return outcome
        problem = Problem(2007, "the call with this request id is under way in another process", "ask again later")
        return Outcome(call_id=call_id, status=Status.UNKNOWN, error=problem)

    async def _drive(self, passage: Passage) -> Outcome:
        try:
            for _ in range(REBIND_TRIES_MAX):
                outcome = await self._attempt(passage)
                if outcome is not None:
                    return outcome
        except StorageError as error:
            return self._unrecorded(passage, error.problem)
        finally:
            passage.release()
        return self._unrecorded(passage, Problem(5002, "the state moved too often under this call", "try again"))

    async def _attempt(self, passage: Passage) -> Outcome | None:
        """From bind to settle; None where the state moved so that the verdict must be reached again."""
        prepared = await self._bind(passage)
        if isinstance(prepared, Problem):
            return await self._settle_unbound(passage, prepared)
        verdict = decide(prepared, self.judge)
        if verdict.decision is Decision.ASK:
            agreed = await self._hold(passage, prepared, verdict)
            if isinstance(agreed, Outcome):
                return agreed
            prepared, verdict = agreed
        if verdict.problem is not None:
            return await self._settle(passage, prepared, verdict, Ending.denied(verdict.problem))
        if prepared.transition is not None:
            return await self._perform_pure(passage, prepared, verdict)
        return await self._perform(passage, prepared, verdict)

    async def _bind(self, passage: Passage, state: ProjectState | None = None) -> Prepared | Problem:
        passage.release()
        prepared = await self._stages.binder.bind(passage.request, passage.args, passage.call_id, self.judge, state)
        if isinstance(prepared, Prepared):
            passage.bound = prepared
        return prepared

    async def _hold(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> tuple[Prepared, Verdict] | Outcome:
        """Ask until somebody agreed to what would be done now; bind and decide run again after each yes."""
        while verdict.decision is Decision.ASK and not _covers(passage.approved, verdict):
            asked = await self._stages.holder.ask(prepared, verdict, passage.claim, passage.approved)
            if not isinstance(asked, Question):
                return await self._not_held(passage, prepared, verdict, asked)
            passage.approved = asked
            self._tell_pending(passage, prepared, verdict, asked)
            passage.release()
            resolution = passage.resolution = await self._stages.holder.wait(asked)
            if resolution.how != "approved":
                return await self._settle(passage, prepared, verdict, Ending.denied(_refusal(resolution)))
            again = await self._bind(passage)
            if isinstance(again, Problem):
                return await self._settle(passage, prepared, verdict, Ending.failed(again, acted=False))
            if again.call.bound_hash != asked.bound_hash:
                changed = Problem(1015, "changed since shown: the approval is void", "make the call again", "hold")
                return await self._settle(passage, prepared, verdict, Ending.denied(changed))
            prepared, verdict = again, decide(again, self.judge)
        return prepared, verdict

    async def _not_held(
        self, passage: Passage, prepared: Prepared, verdict: Verdict, refused: Committed | Problem
    ) -> Outcome:
        if isinstance(refused, Problem):
            return await self._settle(passage, prepared, verdict, Ending.denied(refused))
        return await self._refused(passage, prepared, verdict, refused)

    def _tell_pending(self, passage: Passage, prepared: Prepared, verdict: Verdict, question: Question) -> None:
        task = asyncio.current_task()
        if task:
            task.set_name("held")
        if not passage.pending.done():
            passage.pending.set_result(
                Outcome(
                    call_id=passage.call_id,
                    request_id=passage.request.request_id or "",
                    status=Status.PENDING_APPROVAL,
                    message="a person must agree",
                    signatures=prepared.call.signatures,
                    decision=Decision.ASK,
                    reasons=verdict.reasons,
                    started_at=passage.started_at,
                    expires_at=question.expires_at,
                )
            )

    async def _perform(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> Outcome:
        performer = self._stages.performer
        if needs_intent(prepared.declaration):
            claim = None if passage.held else passage.claim
            committed = await performer.intend(prepared, verdict, claim, first=not passage.held)
            if not isinstance(committed, Applied):
                return await self._refused(passage, prepared, verdict, committed)
            passage.opened = True
        ending = await performer.act(prepared)
        return await self._settle(passage, prepared, verdict, ending)

    async def _perform_pure(self, passage: Passage, prepared: Prepared, verdict: Verdict) -> Outcome | None:
        """Under the project's lock; where the state moved since bind, bind and decide run again."""
        project = passage.request.project
        schema = await self.ledger.state_schema(project)
        async with self.ledger.lock_project(project):
            state = await self.ledger.state(project)
            if state.version != prepared.facts.state_version:
                again = await self._bind(passage, state)
                if isinstance(again, Problem):
                    return await self._settle_unbound(passage, again)
                prepared, verdict = again, decide(again, self.judge)
                if verdict.decision is not Decision.ALLOW and not _covers(passage.approved, verdict):
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
                    return await self._outcome_of_other(call_id)
                problem = other_arguments(passage.claim.request_id)
                passage.claim = None
                return await self._settle(passage, prepared, verdict, Ending.failed(problem, acted=False))
            case AlreadyClosed(call_id):
                return await self._outcome_of_other(call_id)
            case _:
                raise AssertionError(f"not an answer to settling: {committed}")

    async def _settle_unbound(self, passage: Passage, problem: Problem) -> Outcome:
        outcome, committed = await self._stages.settler.settle_unbound(
            passage.request,
            passage.call_id,
            None if problem.code == 2001 else passage.args,
            problem,
            started_at=passage.started_at,
            admitted=True,
            claim=passage.claim,
        )
        if isinstance(committed, RequestTaken):
            return await self._outcome_of_other(committed.call_id)
        return outcome

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


def _covers(approved: Question | None, verdict: Verdict) -> bool:
    """Whether what was approved is all that this verdict asks for: no other role, quorum or layer."""
    if approved is None:
        return False
    required = verdict.requirement
    shown_layers = {reason["layer"] for reason in approved.reasons}
    return (
        verdict.decision is Decision.ASK
        and required.approver_role in ("", approved.approver_role)
        and required.approvers_required <= approved.approvers_required
        and all(reason.layer in shown_layers for reason in verdict.reasons)
    )


def _refusal(resolution: Resolution) -> Problem:
    if resolution.how == "expired":
        return Problem(1016, "nobody answered in time", "make the call again when somebody is there", "hold")
    return Problem(1015, f"`{resolution.by}` said no", "ask them why", "hold")


def _resolution_fields(resolution: Resolution | None) -> dict[str, str] | None:
    if resolution is None:
        return None
    fields = {"resolution": resolution.how, "resolved_at": iso(resolution.at)}
    if resolution.by:
        fields["resolved_by"] = resolution.by
    return fields
