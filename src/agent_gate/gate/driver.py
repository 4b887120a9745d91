"""The path of one call from bind to settle: each stage in turn, and again where the world moved in between."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import Enum

from agent_gate.gate.asking import Asker
from agent_gate.gate.in_force import InForce
from agent_gate.gate.progress import Progress, covers, refusal, run_timeout, still_open
from agent_gate.gate.proposals import Proposals
from agent_gate.gate.recorder import Recorder
from agent_gate.model.approval import Question
from agent_gate.model.bounds import REBIND_TRIES_AMONG_OTHERS, REBIND_TRIES_MAX
from agent_gate.model.committed import Applied
from agent_gate.model.ending import Ending
from agent_gate.model.errors import Problem, StorageError
from agent_gate.model.outcome import Outcome
from agent_gate.model.project import ProjectState
from agent_gate.model.verdict import ASK
from agent_gate.pipeline.decide import decide
from agent_gate.pipeline.perform import needs_intent
from agent_gate.pipeline.stages import Stages
from agent_gate.ports.ledger import Ledger, Turn
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Judged, Moved

_log = logging.getLogger(__name__)


class Unfit(Enum):
    """A call in a turn that is nothing to be done there: it must be asked about, or cannot be bound."""

    UNFIT = 1


UNFIT = Unfit.UNFIT


class Driver:
    """Drives a call; whatever happens meanwhile ends in one outcome."""

    def __init__(
        self,
        stages: Stages,
        in_force: InForce,
        asker: Asker,
        recorder: Recorder,
        proposals: Proposals,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        self._stages, self._in_force, self._asker, self._recorder = stages, in_force, asker, recorder
        self._proposals, self._ledger, self._clock = proposals, ledger, clock

    async def drive(self, progress: Progress) -> Outcome:
        """Take an admitted call to its end."""
        try:
            for _ in range(REBIND_TRIES_MAX):
                outcome = await self._attempt(progress)
                if outcome is not None:
                    return outcome
            moving = Problem(5002, "the world moved too often under this call", "try again")
            return self._recorder.unrecorded(progress, moving)
        except StorageError as error:
            return self._recorder.unrecorded(progress, error.problem)
        except Exception as error:
            _log.exception("the gate itself failed on call %s", progress.call_id)
            problem = Problem(2003, f"the gate itself failed: {type(error).__name__}")
            return self._recorder.unrecorded(progress, problem)
        finally:
            progress.release()

    def close(self) -> None:
        """Let nobody wait for a person any more."""
        self._asker.close()

    async def _attempt(self, progress: Progress) -> Outcome | None:
        """From bind to settle; None where the state moved so that the verdict must be reached again."""
        progress.attempts += 1
        if progress.question is None and self._stages.binder.changes_state(progress.request.tool):
            reached = await self._take_turn(progress)
            if not isinstance(reached, Unfit):
                return reached
        judged = await self._judge(progress)
        if isinstance(judged, Problem):
            return await self._recorder.settle_unjudged(progress, judged)
        if judged.verdict.decision is ASK and not await self._asker.is_granted(progress, judged):
            agreed = await self._hold(progress, judged)
            if not isinstance(agreed, Judged):
                return agreed
            judged = agreed
            paused = await self._asker.paused()
            if paused:
                return await self._recorder.settle(progress, judged, Ending.denied(paused))
        refused = judged.verdict.problem or self._run_is_over(progress)
        if refused is not None:
            return await self._recorder.settle(progress, judged, Ending.denied(refused))
        if judged.prepared.transition is not None:
            return await self._perform_pure(progress, judged)
        return await self._perform(progress, judged)

    async def _judge(self, progress: Progress, state: ProjectState | None = None) -> Judged | Problem:
        """Bind and decide, under one policy; what a person has agreed to must still be what would be done."""
        judge = self._in_force.judge
        progress.release()
        if progress.grant:
            progress.lose_grant()  # it is looked for anew, and may not be there or not be needed any more
        own = tuple([replace(charge, amount=-charge.amount) for charge in progress.reserved])
        progress.stages.append(("bind", self._clock.monotonic()))
        args_json, progress.args_json = progress.args_json, None
        prepared = await self._stages.binder.bind(
            progress.request, progress.args, progress.call_id, judge, state=state, besides=own, args_json=args_json
        )
        if isinstance(prepared, Problem):
            return prepared
        progress.bound = prepared
        progress.stages.append(("decide", self._clock.monotonic()))
        if progress.question is not None and progress.question.bound_hash != prepared.call.bound_hash:
            return Problem(1015, "changed since shown: the approval is void", "make the call again", "hold")
        return await decide(prepared, judge)

    async def _hold(self, progress: Progress, judged: Judged) -> Judged | Outcome | None:
        """Ask until somebody agreed to what would be done now; bind and decide run again after each yes."""
        while judged.verdict.decision is ASK and not (progress.agreed and covers(progress.question, judged.verdict)):
            progress.stages.append(("hold", self._clock.monotonic()))
            asked = await self._asker.ask(progress, judged)
            if isinstance(asked, Problem):
                return await self._recorder.settle(progress, judged, Ending.denied(asked))
            if not isinstance(asked, Question):
                return await self._recorder.refused(progress, judged, asked)
            resolution = await self._asker.answer_to(progress, asked)
            if resolution is None:
                return still_open(asked)
            if not progress.agreed:
                return await self._recorder.settle(progress, judged, Ending.denied(refusal(resolution)))
            again = await self._judge(progress)
            if isinstance(again, Problem):
                return await self._recorder.settle_unjudged(progress, again)
            judged = again
        return judged

    async def _perform(self, progress: Progress, judged: Judged) -> Outcome | None:
        """Act, after the word of it is on record where that is needed; None where it must be judged again before."""
        progress.stages.append(("perform", self._clock.monotonic()))
        if needs_intent(judged.prepared.declaration):
            intended = await self._intend(progress, judged)
            if not isinstance(intended, Judged):
                return intended
            judged = intended
        ending = await self._stages.performer.act(judged.prepared)
        if not isinstance(ending, Ending):
            ending, judged = await self._proposals.conclude(progress, judged, ending)
        return await self._recorder.settle_or_move(progress, judged, ending)

    async def _intend(self, progress: Progress, judged: Judged) -> Judged | Outcome | None:
        """Make the intent durable; else the outcome, or None where what was judged has moved before."""
        try:
            kept = await self._stages.performer.keep(judged.prepared)
            if isinstance(kept, Ending):
                return await self._recorder.settle(progress, judged, kept)
            if not judged.prepared.needs_state:
                committed = await self._recorder.intend(progress, judged, kept)
            else:
                async with self._turn(progress) as turn:
                    if turn.state.ref != judged.prepared.state.ref:
                        again = await self._judge_to_act(progress, turn.state)
                        if again is None:
                            return None
                        judged, kept = again
                    committed = await self._recorder.intend(progress, judged, kept, turn)
        except Moved:
            return None
        if isinstance(committed, Applied):
            return judged
        return await self._recorder.refused(progress, judged, committed)

    async def _judge_to_act(self, progress: Progress, state: ProjectState) -> tuple[Judged, bytes | None] | None:
        """Anew, in the turn in which the intent is written, so that a state that never rests lets the call pass.

        Only where the state has moved often before, because others wait meanwhile; None where that is not so, or where
        the call may not simply go on.
        """
        if not self._stands_alone(progress):
            return None
        judged = await self._judge(progress, state)
        if isinstance(judged, Problem) or judged.verdict.problem is not None:
            return None
        if not await self._asker.may_go_on(progress, judged):
            return None
        progress.stages.append(("perform", self._clock.monotonic()))
        kept = await self._stages.performer.keep(judged.prepared)
        return None if isinstance(kept, Ending) else (judged, kept)

    async def _perform_pure(self, progress: Progress, judged: Judged) -> Outcome | None:
        """Compute a pure tool; one that only looks needs no turn: it has seen the state that it was bound on."""
        if not judged.prepared.registered.only_looks:
            reached = await self._take_turn(progress, judged)
            return None if isinstance(reached, Unfit) else reached
        progress.stages.append(("perform", self._clock.monotonic()))
        ending = await self._stages.performer.transit(judged.prepared, judged.prepared.state, None)
        return await self._recorder.settle_or_move(progress, judged, ending)

    async def _take_turn(self, progress: Progress, judged: Judged | None = None) -> Outcome | Unfit | None:
        """A change of the state, judged and computed on the state that it stands on; None where that never came about.

        The next one has its turn as soon as this one is handed to the ledger.
        """
        schema = await self._ledger.state_schema(progress.request.project)
        async with self._turn(progress) as turn:
            if judged is None or judged.prepared.state.ref != turn.state.ref:
                again = await self._judge(progress, turn.state)
                if isinstance(again, Problem) or not await self._asker.may_go_on(progress, again):
                    return UNFIT
                judged = again
            progress.stages.append(("perform", self._clock.monotonic()))
            refused = judged.verdict.problem or self._run_is_over(progress)
            if refused is not None:
                ending = Ending.denied(refused)
            else:
                ending = await self._stages.performer.transit(judged.prepared, turn.state, schema)
            return await self._recorder.settle_or_move(progress, judged, ending, turn)

    def _turn(self, progress: Progress) -> AbstractAsyncContextManager[Turn]:
        return self._ledger.turn(progress.request.project, alone=self._stands_alone(progress))

    @staticmethod
    def _stands_alone(progress: Progress) -> bool:
        """A call that others' changes have thrown back stands on none that is not committed."""
        return progress.attempts > REBIND_TRIES_AMONG_OTHERS

    def _run_is_over(self, progress: Progress) -> Problem | None:
        ends_at = progress.request.run_ends_at
        return None if ends_at is None or self._clock.monotonic() < ends_at else run_timeout("perform")
