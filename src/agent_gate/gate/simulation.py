"""Simulation: calls are driven as far as that changes nothing and asks nobody."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from agent_gate.gate.in_force import InForce
from agent_gate.gate.proposals import Proposals
from agent_gate.model.bounds import SHOWN_CHARS_MAX
from agent_gate.model.call import CallRequest
from agent_gate.model.charge import Charge
from agent_gate.model.codec import restore
from agent_gate.model.ending import Ending
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import NOT_KNOWN, ON_A_COPY, ONLY_JUDGED, ONLY_READ, Outcome, Status
from agent_gate.model.project import ProjectState
from agent_gate.model.tool import Effect
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.model.visible import visible
from agent_gate.pipeline.admit import Admitted, Rejected
from agent_gate.pipeline.decide import decide
from agent_gate.pipeline.settle import UnboundCall
from agent_gate.pipeline.stages import Stages
from agent_gate.ports.ledger import States
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Judged, Prepared
from agent_gate.resolve.copies import Copies
from agent_gate.tools.files import FS_WRITE
from agent_gate.tools.state import STATE_GET


@dataclass(frozen=True, slots=True)
class SimulationState:
    """The virtual state that a simulation has come to, and what its steps so far would have counted against."""

    state: ProjectState
    charges: tuple[Charge, ...] = ()
    left_open: str = ""
    """The first step that was only judged and would change the world: what later ones come to may hang on it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a simulation beyond judging."""

    with_reads: bool = False
    with_previews: bool = False
    """Reads and previews do run something on this machine: an agent's door leaves them off."""
    as_if_agreed: bool = False
    """Goes on where a person would be asked: it shows that person what an approval would lead to."""
    shows_state: bool = True
    """Off at an agent's door: what an agent reads is recorded, and a simulation is not."""
    copies: Copies | None = None
    """Carry files from one step to the next; whoever made them closes them."""


class Simulator:
    """Simulates and explains calls."""

    def __init__(self, stages: Stages, in_force: InForce, proposals: Proposals, ledger: States, clock: Clock) -> None:
        self._stages, self._in_force, self._proposals = stages, in_force, proposals
        self._ledger, self._clock = ledger, clock

    async def simulate(
        self, request: CallRequest, so_far: SimulationState | None, extent: Extent
    ) -> tuple[Outcome, SimulationState | None]:
        """Try a call out: nothing is written, nobody asked. Pure tools run on a virtual state, which goes on."""
        request, started_at = replace(request, simulate=True, copies=extent.copies), self._clock.now()
        simulated = await self._bind(request, so_far)
        if isinstance(simulated, Problem):
            return self._simulated_refusal(request, simulated), so_far
        prepared, so_far = simulated
        judged = await decide(prepared, self._in_force.judge)
        if isinstance(judged, Problem):
            prepared.release()
            return self._simulated_refusal(request, judged), so_far
        try:
            ending, how = await self._ending(_agreed(judged) if extent.as_if_agreed else judged, so_far.state, extent)
        finally:
            prepared.release()
        if ending.status is Status.ERROR and _hangs_on(prepared, so_far.left_open) and how is not ONLY_JUDGED:
            ending, how = _not_known(ending, so_far.left_open), NOT_KNOWN
        outcome = self._stages.settler.outcome(judged, ending, started_at)
        outcome = replace(outcome, simulated=True, simulation=how)
        so_far = dataclasses.replace(so_far, left_open=so_far.left_open or _left_open(prepared, ending, how))
        if ending.status not in (Status.SUCCESS, Status.PENDING_APPROVAL):
            return outcome, so_far
        # What goes on after a question goes on because somebody agreed: what that step counts against is used up.
        so_far = dataclasses.replace(so_far, charges=(*so_far.charges, *prepared.charges))
        if ending.next_state is None:
            return outcome, so_far
        moved = ProjectState(so_far.state.version + 1, restore(ending.next_state.document))
        outcome = replace(outcome, state_version=moved.version, state_diff=ending.next_state.diff)
        return outcome, dataclasses.replace(so_far, state=moved)

    async def explain(self, request: CallRequest) -> tuple[Outcome, Verdict | None]:
        """Tell what the gate would say to a call now, with the whole trace; nothing is done, nobody asked."""
        request = replace(request, simulate=True)
        simulated = await self._bind(request, None)
        if isinstance(simulated, Problem):
            return replace(self._refusal(request, simulated), simulated=True), None
        prepared, _ = simulated
        prepared.release()
        judged = await decide(prepared, self._in_force.judge)
        if isinstance(judged, Problem):
            return replace(self._refusal(request, judged), simulated=True), None
        verdict = judged.verdict
        if verdict.problem is not None:
            ending = Ending.denied(verdict.problem)
        else:
            ending = Ending(Status.PENDING_APPROVAL if verdict.decision is Decision.ASK else Status.SUCCESS)
        outcome = self._stages.settler.outcome(judged, ending, self._clock.now())
        return replace(outcome, simulated=True, state_diff=None), verdict

    async def bound_hash(self, request: CallRequest) -> str | None:
        """Of what the call would be if it were bound here and now; None where it cannot be."""
        state = await self._ledger.state(request.project)
        request = replace(request, simulate=True)
        prepared = await self._stages.binder.bind(request, dict(request.args), "", self._in_force.judge, state=state)
        if isinstance(prepared, Problem):
            return None
        prepared.release()
        return prepared.call.bound_hash

    async def _bind(
        self, request: CallRequest, so_far: SimulationState | None
    ) -> tuple[Prepared, SimulationState] | Problem:
        """The call bound where the simulation has come to, or why it would not get so far."""
        admitted = await self._stages.admission.admit(replace(request, request_id=None), "")
        if isinstance(admitted, Rejected):
            return admitted.problem
        assert isinstance(admitted, Admitted)
        if so_far is None:
            so_far = SimulationState(await self._ledger.state(request.project))
        prepared = await self._stages.binder.bind(
            request, admitted.args, "", self._in_force.judge, state=so_far.state, besides=so_far.charges
        )
        return prepared if isinstance(prepared, Problem) else (prepared, so_far)

    async def _ending(self, judged: Judged, state: ProjectState, extent: Extent) -> tuple[Ending, str]:
        """The end that it would come to, and what was done to find out."""
        prepared, verdict = judged.prepared, judged.verdict
        if verdict.problem is not None:
            return Ending.denied(verdict.problem), ONLY_JUDGED
        if verdict.decision is Decision.ASK:
            return await self._asked(prepared, extent)
        if not extent.shows_state and prepared.declaration.name == STATE_GET.name:
            return Ending(Status.SUCCESS), ONLY_JUDGED
        if prepared.transition is not None:
            schema = await self._ledger.state_schema(prepared.call.request.project)
            return await self._stages.performer.transit(prepared, state, schema), ON_A_COPY
        if extent.with_reads and prepared.declaration.effect is Effect.READ:
            ending = await self._stages.performer.act(prepared)
            assert isinstance(ending, Ending), "what only reads proposes nothing"
            return ending, ON_A_COPY if prepared.copies else ONLY_READ
        if extent.with_previews and prepared.preview is not None:
            return await self._previewed(judged)
        return Ending(Status.SUCCESS), ONLY_JUDGED

    async def _previewed(self, judged: Judged) -> tuple[Ending, str]:
        previewed = await self._stages.performer.preview(judged.prepared)
        if not isinstance(previewed, Ending):
            return await self._proposals.preview(judged, previewed), ON_A_COPY
        is_done = judged.prepared.copies and (previewed.acted or previewed.problem is not None)
        return previewed, ON_A_COPY if is_done else ONLY_JUDGED

    async def _asked(self, prepared: Prepared, extent: Extent) -> tuple[Ending, str]:
        """Later steps go on as if somebody had agreed; a command does not run before somebody has."""
        message = "a person would have to agree"
        if extent.with_previews and prepared.copies and prepared.declaration.name == FS_WRITE.name:
            written = await self._stages.performer.preview(prepared)
            if isinstance(written, Ending) and written.status is Status.SUCCESS:
                return Ending(Status.PENDING_APPROVAL, output=written.output, message=message), ON_A_COPY
        return Ending(Status.PENDING_APPROVAL, message=message), ONLY_JUDGED

    def _simulated_refusal(self, request: CallRequest, problem: Problem) -> Outcome:
        return replace(self._refusal(request, problem), simulated=True, simulation=ONLY_JUDGED)

    def _refusal(self, request: CallRequest, problem: Problem) -> Outcome:
        return self._stages.settler.refusal(UnboundCall(request, "", problem, self._clock.now()))


def _agreed(judged: Judged) -> Judged:
    """The same after a person's yes, where one would be asked."""
    if judged.verdict.decision is not Decision.ASK:
        return judged
    return Judged(judged.prepared, replace(judged.verdict, decision=Decision.ALLOW))


def _left_open(prepared: Prepared, ending: Ending, how: str) -> str:
    """The step's name, where it would change the world and nothing was done in its stead."""
    goes_on = ending.status in (Status.SUCCESS, Status.PENDING_APPROVAL)
    changes = prepared.declaration.effect is Effect.WRITE
    return prepared.call.signatures[0] if how is ONLY_JUDGED and goes_on and changes else ""


def _hangs_on(prepared: Prepared, left_open: str) -> bool:
    """True where a step that would change the world may decide how this one ends; a pure tool sees the state alone."""
    return bool(left_open) and prepared.transition is None


def _not_known(ending: Ending, left_open: str) -> Ending:
    """It fails as things are here; what an earlier step would have changed is missing."""
    assert ending.problem is not None
    detail = f"{ending.problem.detail}; but `{visible(left_open, SHOWN_CHARS_MAX)}` before it was only judged"
    problem = Problem(2007, detail, "run it for good to find out", "perform")
    return replace(ending, status=Status.UNKNOWN, problem=problem)
