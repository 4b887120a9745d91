"""Proposals of acts, such as what a command wrote: judged, perhaps shown to a person, then committed all or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from agent_gate.gate.asking import Asker
from agent_gate.gate.in_force import InForce
from agent_gate.gate.progress import Progress, covers, refusal
from agent_gate.model.approval import WRITTEN, Question
from agent_gate.model.bounds import SIGNATURES_MAX, WAITING_PROPOSALS_MAX
from agent_gate.model.call import BoundCall
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied, Committed, NotOpen
from agent_gate.model.ending import OUTCOME_UNKNOWN, WRITES_STAY, Ending, Output
from agent_gate.model.errors import GateError, Problem, StorageError
from agent_gate.model.outcome import Status
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.pipeline.admit import closed_problem
from agent_gate.pipeline.hold import Holder
from agent_gate.pipeline.perform import Performer, with_output
from agent_gate.policy.changes import write_signature
from agent_gate.ports.tools import Judged, Prepared, Proposal
from agent_gate.tools.files import FS_WRITE


class Proposals:
    """Takes a proposal to its end; whatever that is, nothing of it waits any longer."""

    def __init__(self, performer: Performer, in_force: InForce, holder: Holder, asker: Asker) -> None:
        self._performer, self._in_force, self._holder, self._asker = performer, in_force, holder, asker
        self._waiting: Counter[str] = Counter()
        """Proposals of each agent that wait for a person, and take room on a disk."""

    async def conclude(self, progress: Progress, judged: Judged, proposal: Proposal) -> tuple[Ending, Judged]:
        """Take it to its end, told with the verdict that this rests on: the call's own, or the one on what it wrote."""
        try:
            told = with_output(proposal.result)
            if not proposal.changes and proposal.problem is None:
                return _failed_or(told, proposal), judged
            if told.problem is not None:
                return replace(told, files=tuple(proposal.changes)), judged
            if proposal.problem is not None:
                return _told(proposal.problem, proposal, told.output), judged
            problem, verdict = await self._not_agreed(progress, judged, proposal)
            if problem is not None:
                return _told(problem, proposal, told.output), Judged(judged.prepared, verdict)
            problem = await self._commit(progress, judged, proposal, told.output)
            if problem is None and proposal.failure is not None:
                return replace(_told(proposal.failure, proposal, told.output), message=WRITES_STAY), judged
            return _told(problem, proposal, told.output), judged
        finally:
            await proposal.discard()

    async def preview(self, judged: Judged, proposal: Proposal) -> Ending:
        """Tell how it would end; nothing is done, nobody asked."""
        try:
            shown = {**proposal.result, "changes": await proposal.shown()}
            output = with_output(shown).output
            if judged.prepared.call.resources.get("writes") == "direct":
                message = "for good it would write to the disk itself, judged by nobody"
                problem = proposal.problem or await _carried(proposal) or proposal.failure
                return replace(_told(problem, proposal, output), message=message)
            verdict = self._decide(judged, proposal)
            problem = proposal.problem or verdict.problem or await _carried(proposal)
            if problem is None and verdict.decision is Decision.ASK:
                message = "a person would have to agree to what it writes"
                return Ending(Status.PENDING_APPROVAL, output=output, message=message, files=tuple(proposal.changes))
            return _told(problem or proposal.failure, proposal, output)
        finally:
            await proposal.discard()

    def _decide(self, judged: Judged, proposal: Proposal) -> Verdict:
        prepared, requirement = judged.prepared, judged.verdict.requirement
        judge = self._in_force.judge
        return judge.decide_changes(prepared.call, prepared.facts, proposal.changes, requirement, FS_WRITE)

    async def _not_agreed(
        self, progress: Progress, judged: Judged, proposal: Proposal
    ) -> tuple[Problem | None, Verdict]:
        """The problem with what was written; none where the policy, and a person where it asks for one, agree."""
        verdict = self._decide(judged, proposal)
        were_shown = progress.agreed and _were_shown(proposal, judged.prepared.call)
        if verdict.decision is not Decision.ASK or were_shown:
            return verdict.problem, verdict
        with self._room_for(progress) as full:
            if full is not None:
                return full, verdict
            shown = await _as_shown(judged.prepared, proposal)
            while verdict.decision is Decision.ASK:
                problem = await self._ask(progress, Judged(shown, verdict))
                if problem is not None:
                    return problem, verdict
                verdict = self._decide(judged, proposal)
                if covers(progress.question, verdict):
                    break
        return verdict.problem or await self._asker.paused(), verdict

    async def _ask(self, progress: Progress, judged: Judged) -> Problem | None:
        """Put the question and wait; why it was not answered with yes."""
        question = await self._asker.ask_about_writes(progress, judged)
        if isinstance(question, Problem):
            return question
        if not isinstance(question, Question):
            return _refused(question, progress)
        resolution = await self._asker.answer_to(progress, question)
        if resolution is None:
            await self._holder.expire(question)
            detail = "the gate was closed before anybody answered; nothing was written"
            return Problem(1016, detail, "make the call again", "hold")
        return None if progress.agreed else refusal(resolution)

    @contextmanager
    def _room_for(self, progress: Progress) -> Iterator[Problem | None]:
        agent_id = progress.request.agent.id
        if self._waiting[agent_id] >= WAITING_PROPOSALS_MAX:
            detail = f"what {WAITING_PROPOSALS_MAX} commands of this agent wrote waits for a person already"
            yield Problem(1012, detail, "wait for answers", "hold")
            return
        self._waiting[agent_id] += 1
        try:
            yield None
        finally:
            self._waiting[agent_id] -= 1

    async def _commit(
        self, progress: Progress, judged: Judged, proposal: Proposal, output: Output | None
    ) -> Problem | None:
        """Staged, written down, moved into place; why none of it was."""
        progress.nothing_done = True
        try:
            journal = await proposal.stage(judged.prepared.call.call_id)
            committed = await self._performer.intend_commit(judged, proposal, output, journal)
            if not isinstance(committed, Applied):
                return _refused(committed, progress)
            progress.nothing_done = False
            await proposal.commit()
        except StorageError:
            raise
        except GateError as error:
            return error.problem.at("perform")
        return None


def _told(problem: Problem | None, proposal: Proposal, output: Output | None) -> Ending:
    """Tell what the command said, and its files, however it ended."""
    files = tuple(proposal.changes)
    if problem is None:
        return Ending(Status.SUCCESS, output=output, acted=True, files=files)
    if problem.code == OUTCOME_UNKNOWN:
        return Ending(Status.UNKNOWN, problem, output, acted=True, files=files)
    status = Status.EXPIRED if problem.code == 1016 else Status.DENIED if problem.code < 2000 else Status.ERROR
    return Ending(status, problem, output, acted=True, files=files)


async def _carried(proposal: Proposal) -> Problem | None:
    """Carry what was written on to later steps of the simulation; the problem where they cannot find it."""
    try:
        await proposal.carry()
    except GateError as error:
        return error.problem.at("perform")
    return None


def _failed_or(told: Ending, proposal: Proposal) -> Ending:
    """Tell of a command that wrote nothing: a failure of its own, else what it said."""
    if told.problem is not None or proposal.failure is None:
        return told
    return _told(proposal.failure, proposal, told.output)


def _were_shown(proposal: Proposal, call: BoundCall) -> bool:
    """True where the person who agreed to the call agreed to each of its changes, as with a revert."""
    return {write_signature(change.path) for change in proposal.changes}.issubset(call.signatures)


def _refused(committed: Committed, progress: Progress) -> Problem:
    if isinstance(committed, NotOpen):
        return closed_problem(progress.request.project, committed.status)
    raise AssertionError(f"not an answer to a commit: {committed}")


async def _as_shown(prepared: Prepared, proposal: Proposal) -> Prepared:
    """The call with what it wrote beside its own arguments: judged, shown, hashed and agreed to as one."""
    call = prepared.call
    shown = await proposal.shown()
    args = {**call.recorded_args, WRITTEN: shown}
    if isinstance(proposal.result, dict) and "return_code" in proposal.result:
        args["return_code"] = proposal.result["return_code"]
    signatures = (*call.signatures, *(write_signature(change.path) for change in proposal.changes))
    bound = BoundCall(
        call.call_id,
        call.request,
        args,
        args,
        signatures[:SIGNATURES_MAX],
        call.input_hash,
        {**call.resources, "manifest_hash": proposal.manifest_hash},
        canonical(args),
    )
    return replace(prepared, call=bound, on_release=None)
