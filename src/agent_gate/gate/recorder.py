"""The record of a call: its intent and its end are written here, and what the ledger says to them is acted on."""

from __future__ import annotations

from dataclasses import replace

from agent_gate.gate.progress import Progress, still_open
from agent_gate.gate.tasks import Tasks
from agent_gate.model.bounds import JOIN_LATE_POLLS_MAX, JOIN_POLL_S, JOIN_POLLS_MAX
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
from agent_gate.model.errors import Problem
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.record import outcome_of, output_blob
from agent_gate.model.undone import Undone
from agent_gate.model.work import Change, LeaveResult, Work
from agent_gate.pipeline.admit import closed_problem, other_arguments
from agent_gate.pipeline.perform import Intent
from agent_gate.pipeline.settle import Settlement, UnboundCall
from agent_gate.pipeline.stages import Stages
from agent_gate.policy.limits import no_room, outstanding
from agent_gate.ports.ledger import Ledger, Turn
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Judged


class Recorder:
    """Writes a call's entries and reads those of calls that others made."""

    def __init__(
        self, stages: Stages, ledger: Ledger, clock: Clock, tasks: Tasks, join_poll_s: float = JOIN_POLL_S
    ) -> None:
        """`tasks` are those that the gate waits for at its end: effects run there."""
        self._stages, self._ledger, self._clock, self._tasks = stages, ledger, clock, tasks
        self._join_poll_s = join_poll_s

    async def intend(
        self, progress: Progress, judged: Judged, kept: bytes | None, turn: Turn | None = None
    ) -> Committed:
        """Write that the act begins, with what its undoing will need."""
        charges = outstanding(judged.prepared.charges, progress.reserved)
        intent = Intent(
            judged,
            charges,
            claim=None if progress.held else progress.claim,
            started_at=None if progress.held else progress.started_at,
            kept=kept,
            resolution=progress.resolution_fields() if progress.grant else None,
            changes=self._use_of_grant(progress),
            turn=turn,
        )
        committed = await self._stages.performer.intend(intent)
        if isinstance(committed, Applied):
            progress.opened = True
            progress.reserved += charges
        return committed

    async def settle(self, progress: Progress, judged: Judged, ending: Ending) -> Outcome:
        """Write the end of a call that was not performed, or whose performance cannot be judged again."""
        outcome = await self.settle_or_move(progress, judged, ending)
        assert outcome is not None, "only settling a performance can find that it must be judged again"
        return outcome

    async def settle_or_move(
        self, progress: Progress, judged: Judged, ending: Ending, turn: Turn | None = None
    ) -> Outcome | None:
        """Write the end of a call; None where what it rests on has moved, so that it must be judged again."""
        progress.stages.append(("settle", self._clock.monotonic()))
        changes = self._left_behind(progress)
        if progress.grant and ending.acted and not progress.opened:
            changes += self._use_of_grant(progress)
        settlement = Settlement(
            judged,
            ending,
            started_at=progress.started_at,
            claim=progress.claim,
            opened=progress.opened,
            held=progress.held,
            reserved=progress.reserved,
            resolution=progress.resolution_fields() if progress.resolution else None,
            changes=changes,
            turn=turn,
        )
        settled = await self._stages.settler.settle(settlement)
        if not isinstance(settled.committed, Applied):
            return await self.refused(progress, judged, settled.committed)
        if settled.effect_id is not None:
            self._tasks.start(self._stages.effects.run(judged.prepared, settled.outcome, settled.effect_id))
        return settled.outcome

    async def refused(self, progress: Progress, judged: Judged, committed: Committed) -> Outcome | None:
        """Let the ledger have the last word: what was there at bind is not there at commit."""
        match committed:
            case GrantSpent():
                progress.lose_grant()
                return None
            case StateMoved():
                return None
            case NoRoom(charge, used):
                return await self.settle(progress, judged, Ending.denied(no_room(charge, used)))
            case NotOpen(status):
                problem = closed_problem(progress.request.project, status)
                return await self.settle(progress, judged, Ending.denied(problem))
            case RequestTaken(call_id, input_hash):
                other = await self._outcome_of_taker(progress, call_id, input_hash)
                if isinstance(other, Outcome):
                    return other
                return await self.settle(progress, judged, Ending.failed(other, acted=False))
            case Undone() as undone:
                return await self.settle(progress, judged, Ending.failed(undone.problem, acted=False))
            case AlreadyClosed(call_id):
                return await self.outcome_of_other(call_id, wait=False)
            case _:
                raise AssertionError(f"not an answer to settling: {committed}")

    async def settle_unjudged(self, progress: Progress, problem: Problem) -> Outcome:
        """Write the end of a call that could not be judged; one that was shown to a person ends as what was shown."""
        if progress.shown is None:
            return await self._settle_unbound(progress, problem)
        denied = problem.code < 2000
        ending = Ending.denied(problem) if denied else Ending.failed(problem, acted=False)
        return await self.settle(progress, progress.shown, ending)

    async def _settle_unbound(self, progress: Progress, problem: Problem) -> Outcome:
        progress.stages.append(("settle", self._clock.monotonic()))
        outcome, committed = await self._stages.settler.settle_unbound(
            self._unbound(progress, problem),
            admitted=True,
            claim=progress.claim,
            held=progress.held,
            reserved=progress.reserved,
            changes=self._left_behind(progress),
        )
        if not isinstance(committed, RequestTaken):
            return outcome
        other = await self._outcome_of_taker(progress, committed.call_id, committed.input_hash)
        return other if isinstance(other, Outcome) else await self._settle_unbound(progress, other)

    def unrecorded(self, progress: Progress, problem: Problem) -> Outcome:
        """Tell of a call whose ledger cannot be written: an act that had begun is in doubt, nothing else happened."""
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
            ended_at=self._clock.now(),
            tool=progress.request.tool,
            args=self._stages.binder.recordable(progress.request.tool, progress.args),
        )

    def _unbound(self, progress: Progress, problem: Problem) -> UnboundCall:
        args = self._stages.binder.recordable(progress.request.tool, progress.args)
        return UnboundCall(progress.request, progress.call_id, problem, progress.started_at, args)

    def _use_of_grant(self, progress: Progress) -> tuple[Change, ...]:
        if progress.grant is None:
            return ()
        return (self._stages.holder.use(progress.grant, progress.call_id),)

    def _left_behind(self, progress: Progress) -> tuple[Change, ...]:
        """An outcome that nobody is there to take waits for its agent."""
        progress.promised = not progress.is_left_alone
        return () if progress.promised else (self._leaving(progress),)

    async def leave_behind(self, progress: Progress) -> None:
        """Let the outcome wait for its agent: who was to take it left in that very moment."""
        await self._ledger.commit(Work(GATE_PROJECT, changes=(self._leaving(progress),)))

    def _leaving(self, progress: Progress) -> LeaveResult:
        request = progress.request
        return LeaveResult(request.agent.id, progress.call_id, request.request_id, iso(self._clock.now()))

    async def _outcome_of_taker(self, progress: Progress, call_id: str, input_hash: str) -> Outcome | Problem:
        """The outcome of the call that has this request id; the problem where that is another request."""
        assert progress.claim is not None
        progress.promised = False  # the outcome that is told now is another call's
        if input_hash == progress.claim.input_hash:
            return await self.outcome_of_other(call_id, progress.request.wait)
        problem = other_arguments(progress.claim.request_id)
        progress.claim = None
        return problem

    async def outcome(self, call_id: str) -> Outcome | None:
        """The outcome on record."""
        entries = await self._ledger.entries_of(call_id)
        return outcome_of(entries, await self._ledger.blob(output_blob(call_id)))

    async def outcome_of_other(self, call_id: str, wait: bool) -> Outcome:
        """The outcome of the call that had this request first; the wait for it is joined, within bounds."""
        problem = Problem(2007, "the call with this request id is under way in another process", "ask again later")
        answer = Outcome(call_id=call_id, status=Status.UNKNOWN, error=problem)
        late_polls = 0
        for _ in range(JOIN_POLLS_MAX):
            found = await self._ledger.question(call_id)
            outcome = await self.outcome(call_id)
            if outcome is not None:
                return outcome
            if found is not None:
                answer = still_open(found[0])
                late_polls += found[0].left_s(self._clock) <= 0
            if not wait or late_polls > JOIN_LATE_POLLS_MAX:
                break
            await self._ledger.wait_for_answer(call_id, self._join_poll_s)
        return answer
