"""Gate: takes calls in, has each driven to its end, and answers whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from agent_gate.gate.driver import Driver
from agent_gate.gate.in_force import InForce
from agent_gate.gate.progress import Progress, run_timeout
from agent_gate.gate.recorder import Recorder
from agent_gate.gate.simulation import Extent, SimulationState, Simulator
from agent_gate.gate.tasks import Tasks
from agent_gate.gate.under_way import UnderWay
from agent_gate.model.approval import Answer, Approver, GrantTerms
from agent_gate.model.call import Agent, CallRequest, Presence
from agent_gate.model.committed import Applied
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.outcome import PENDING, Outcome, Status
from agent_gate.model.record import began_at, reserved_by
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Verdict
from agent_gate.model.work import Claim
from agent_gate.pipeline.admit import Rejected, Repeated, other_arguments
from agent_gate.pipeline.settle import UnboundCall
from agent_gate.pipeline.stages import Stages
from agent_gate.policy.judge import Judge
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.services import Service
from agent_gate.ports.surroundings import Clock, Ids, Secrets
from agent_gate.ports.tools import Tools
from agent_gate.ports.watching import Observer, Unobserved
from agent_gate.resolve.copies import Copies

BREAK_OFF_LOOK_S = 0.1
"""Seconds between looks at a step that is to end: it may just be on its way to a question."""
UNSAID: Final[Any] = object()
"""Stands for an option that the caller did not say, whatever its type."""


class Gate:
    """The one path from an agent's wish to a recorded outcome."""

    def __init__(
        self,
        *,
        driver: Driver,
        simulator: Simulator,
        recorder: Recorder,
        stages: Stages,
        in_force: InForce,
        tasks: Tasks,
        tools: Tools,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
        agent: Agent,
    ) -> None:
        """`gate/assembly.py` makes one."""
        self.ledger, self.clock, self.ids, self.secrets = ledger, clock, ids, secrets
        self.tools, self.agent, self.stages = tools, agent, stages
        self.services: Sequence[Service] = ()
        """Providers of the tools, as far as they have a health of their own."""
        self.reload_policy: Callable[[], Awaitable[bool]] | None = None
        """Loads the file of the policy now, and says whether it is in force; None where there is no file."""
        self.observer: Observer = Unobserved()
        self._driver, self._simulator, self._recorder = driver, simulator, recorder
        self._in_force, self._tasks = in_force, tasks
        self._under_way = UnderWay()
        self._taking_over = asyncio.Lock()
        self._closing = False

    @property
    def judge(self) -> Judge:
        """The judge of the policy in force."""
        return self._in_force.judge

    @judge.setter
    def judge(self, judge: Judge) -> None:
        self._in_force.judge = judge

    @property
    def calls_under_way(self) -> int:
        """The number of calls that have no outcome yet."""
        return len(self._under_way)

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json] | None = None,
        /,
        *,
        project: str = UNSAID,
        request_id: str | None = UNSAID,
        confirmed: bool = UNSAID,
        mode: str | None = UNSAID,
        wait: bool = UNSAID,
        agent: Agent | None = UNSAID,
        **arguments: Json,
    ) -> Outcome:
        """Put one call through all six stages; arguments are given as a mapping or by name.

        The call's own options are project `default`, no `request_id`, not `confirmed`, the agent's `mode` and `wait`
        unless they are said. Where the tool has an argument of such a name, its arguments need the mapping.
        """
        options: dict[str, Any] = {
            "project": project,
            "request_id": request_id,
            "confirmed": confirmed,
            "mode": mode,
            "wait": wait,
            "agent": agent,
        }
        said = {name: value for name, value in options.items() if value is not UNSAID}
        if said and args is None:
            self._refuse_ambiguous(tool, said)
        request = CallRequest(
            said.get("agent") or self.agent,
            tool,
            {**(args or {}), **arguments},
            said.get("project", "default"),
            said.get("request_id"),
            said.get("confirmed", False),
            mode_named(said.get("mode")),
            wait=said.get("wait", True),
        )
        return await self.submit(request)

    def _refuse_ambiguous(self, tool: str, options: Iterable[str]) -> None:
        """A keyword may not mean one thing today and another when the tool gets an argument of that name."""
        registered = self.tools.find(tool)
        arguments = registered.declaration.input_schema.get("properties", {}) if registered else {}
        for name in options:
            if name in arguments:
                raise ToolError(
                    f"`{name}` is an argument of `{tool}` and an option of the call",
                    code=2002,
                    suggestion=f'give the arguments as one mapping: gate.call("{tool}", {{"{name}": …}})',
                )

    async def submit(self, request: CallRequest) -> Outcome:
        """A request as a door hands it over. The call goes on when the caller is cancelled: it is never half-done."""
        call_id, started_at, since = self.ids.new(), self.clock.now(), self.clock.monotonic()
        try:
            if self._closing:
                raise StorageError("the gate is closed", suggestion="open it again")
            if request.run_ends_at is not None and since >= request.run_ends_at:
                return await self.refuse(request, run_timeout("admit"))
            admitted = await self.stages.admission.admit(request, call_id)
            if isinstance(admitted, Repeated):
                return await self._repeat(request, admitted)
            if isinstance(admitted, Rejected):
                return await self._turn_away(request, call_id, admitted, started_at)
            claim = admitted.claim
            if claim is not None and (same := self._under_way.request(claim.agent_id, claim.request_id)):
                return await self._join(same, claim, request, call_id, started_at)
            progress = Progress(request, call_id, admitted.args, started_at, claim, args_json=admitted.args_json)
            progress.stages.append(("admit", since))
            self._under_way.add(progress)
            if request.presence is not None and request.wait:
                # For speed (decision 0013): in the task of a door that does not cancel it, one task instead of two.
                return await self._attend(progress, request.presence, self._drive(progress))
            self._tasks.start(self._drive(progress))
            return await self._follow(progress, request)
        except StorageError as error:
            return self.stages.settler.refusal(UnboundCall(request, call_id, error.problem.at("admit"), started_at))

    async def _drive(self, progress: Progress) -> Outcome:
        """Drive the call and tell who waits, a turn of the event loop sooner than its task could; and who watches."""
        outcome: Outcome | None = None  # none where the call was broken off
        try:
            outcome = await self._driver.drive(progress)
        finally:
            self._under_way.remove(progress)
            progress.end(outcome)
            self.observer.ended(progress.call_id, progress.request.tool, outcome, progress.stages)
        return outcome

    async def _follow(self, progress: Progress, request: CallRequest) -> Outcome:
        reaching = self._outcome_for(progress, request.wait)
        return await self._attend(progress, request.presence or Presence(), reaching)

    async def _attend(self, progress: Progress, presence: Presence, reaching: Awaitable[Outcome]) -> Outcome:
        """Reach the outcome for one caller; what nobody takes in the end waits for its agent."""
        progress.followers.append(presence)
        try:
            outcome = await reaching
            progress.taken |= presence.here and outcome.status is not PENDING
            return outcome
        finally:
            progress.followers.remove(presence)
            if progress.promised and progress.is_left_alone and not progress.taken:
                self._tasks.start(self._recorder.leave_behind(progress))

    async def _outcome_for(self, progress: Progress, wait: bool) -> Outcome:
        if progress.outcome is not None:
            return progress.outcome
        if not wait and progress.held:
            return progress.still_open()
        return await progress.waiter(patient=wait)

    async def refuse(self, request: CallRequest, problem: Problem) -> Outcome:
        """Record that a call could not even be made: the run that it belongs to knows why."""
        args = self.recordable(request.tool, request.args)
        call = UnboundCall(request, self.ids.new(), problem, self.clock.now(), args)
        try:
            outcome, _ = await self.stages.settler.settle_unbound(call, admitted=True)
        except StorageError as error:
            return self.stages.settler.refusal(replace(call, problem=error.problem.at("settle")))
        return outcome

    def recordable(self, tool: str, args: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """The part of arguments that are not bound that may be written down: without the tool's secrets."""
        return self.stages.binder.recordable(tool, args)

    async def simulate(
        self,
        request: CallRequest,
        so_far: SimulationState | None = None,
        *,
        with_reads: bool = False,
        with_previews: bool = False,
        as_if_agreed: bool = False,
        shows_state: bool = True,
        copies: Copies | None = None,
    ) -> tuple[Outcome, SimulationState | None]:
        """Try a call out: nothing is written, nobody asked. Pure tools run on a virtual state, which goes on.

        Reads and previews do run something on this machine: an agent's door leaves them off. It leaves `state.get` off
        too (`shows_state`): what an agent reads is recorded, and a simulation is not.
        `copies` carry files from one step to the next; whoever made them closes them.
        `as_if_agreed` goes on where a person would be asked: it shows that person what an approval would lead to.
        """
        extent = Extent(with_reads, with_previews, as_if_agreed, shows_state, copies)
        return await self._simulator.simulate(request, so_far, extent)

    async def explain(self, request: CallRequest) -> tuple[Outcome, Verdict | None]:
        """Tell what the gate would say to a call now, with the whole trace; nothing is done, nobody asked."""
        return await self._simulator.explain(request)

    async def bound_hash(self, request: CallRequest) -> str | None:
        """Of what the call would be if it were bound here and now; None where it cannot be."""
        return await self._simulator.bound_hash(request)

    async def answer(
        self,
        call_id: str,
        *,
        approve: bool,
        by: Approver,
        nonce: str | None = None,
        note: str = "",
        grant: GrantTerms | None = None,
    ) -> None:
        """A person's yes or no, with a grant for later calls where it is given; raises where it does not count."""
        if nonce is None:
            found = await self.ledger.question(call_id)
            nonce = found[0].nonce if found else ""
        answer = Answer(call_id, nonce, approve, by, self.clock.now(), note, grant)
        problem = await self.stages.holder.answer(answer)
        if problem:
            raise GateError.of(problem)

    def count_refusal(self, who: str, problem: Problem) -> None:
        """Count a refusal at a door; it is written down in a summary, never one entry each."""
        self.stages.refusal_counts.count(who, problem)
        self.observer.refused(problem)

    async def withdraw(self, agent: Agent, request_id: str) -> Outcome:
        """The agent takes a call back that waits for a person; one that has ended stays as it is."""
        claimed = await self.ledger.claimed(agent.id, request_id)
        if claimed is None:
            raise ToolError(f"there is no request `{request_id}` of yours", code=2002)
        found = await self.ledger.question(claimed[0])
        if found is not None and found[1] is None:
            await self.stages.holder.withdraw(found[0])
        outcome = await self._recorder.outcome_of_other(claimed[0], wait=found is not None)
        if found is None and outcome.status is Status.UNKNOWN and outcome.ended_at is None:
            raise ToolError("the call is being performed and cannot be withdrawn any more", code=2003)
        return outcome

    async def take_over(self, request: CallRequest, call_id: str) -> bool:
        """Go on with a call whose process is gone while it waited for a person; the agent need not be there."""
        async with self._taking_over:
            if self._under_way.call(call_id) is not None:
                return False
            return await self._take_over(request, Repeated(call_id, dict(request.args))) is not None

    async def result(self, call_id: str) -> Outcome | None:
        """The outcome of a call, once it has one; None where this process does not work on it and none is recorded."""
        progress = self._under_way.call(call_id)
        if progress is not None:
            return await self._outcome_for(progress, wait=True)
        return await self._recorder.outcome(call_id)

    async def break_off(self, run_id: str) -> Outcome | None:
        """End the last step that a run began, and tell how it was settled; None where it began none."""
        progress = self._under_way.last_step(run_id)
        if progress is None:
            return None
        self.stages.performer.break_off(progress.call_id)
        while not progress.is_over:
            if progress.question is not None and not progress.agreed:
                await self.stages.holder.withdraw(progress.question)
            await asyncio.wait({progress.waiter(patient=True)}, timeout=BREAK_OFF_LOOK_S)
        self.stages.performer.forget(progress.call_id)
        return progress.outcome

    def end_run(self, run_id: str) -> None:
        """No step of it will be broken off any more."""
        self._under_way.forget_run(run_id)

    async def close(self) -> None:
        """Let what runs settle; questions stay open in the ledger, and who waits for one is told that it is pending."""
        if self._closing:
            return
        self._closing = True
        self._driver.close()
        await asyncio.sleep(0)  # who has just been cancelled leaves an outcome behind
        while self._tasks.running or self._under_way:  # a call that ends may leave its effect behind
            ends = [progress.waiter(patient=True) for progress in self._under_way]
            await asyncio.wait([*self._tasks.running, *ends])
            await asyncio.sleep(0)
        await self.stages.refusal_counts.close()

    async def _turn_away(self, request: CallRequest, call_id: str, rejected: Rejected, started_at: float) -> Outcome:
        args = self.recordable(request.tool, rejected.args) if rejected.args else None
        call = UnboundCall(request, call_id, rejected.problem, started_at, args)
        if rejected.recorded:
            outcome, _ = await self.stages.settler.settle_unbound(call, admitted=False)
        else:
            self.stages.refusal_counts.count(request.agent.id, rejected.problem)
            outcome = self.stages.settler.refusal(call)
        self.observer.ended(call_id, request.tool, outcome)
        return outcome

    async def _join(
        self, progress: Progress, claim: Claim, request: CallRequest, call_id: str, started_at: float
    ) -> Outcome:
        assert progress.claim is not None
        if progress.claim.input_hash != claim.input_hash:
            rejected = Rejected(other_arguments(claim.request_id))
            return await self._turn_away(request, call_id, rejected, started_at)
        return await self._follow(progress, request)

    async def _repeat(self, request: CallRequest, repeated: Repeated) -> Outcome:
        assert request.request_id is not None
        key = request.agent.id, request.request_id
        same = self._under_way.request(*key)
        if same is None and await self.ledger.abandoned_by(repeated.call_id):
            async with self._taking_over:
                same = self._under_way.request(*key) or await self._take_over(request, repeated)
        if same is None:
            return await self._recorder.outcome_of_other(repeated.call_id, request.wait)
        return await self._follow(same, request)

    async def _take_over(self, request: CallRequest, repeated: Repeated) -> Progress | None:
        """A held call that nobody works on any more, made again: it goes on from its question.

        None where another process was faster.
        """
        call_id = repeated.call_id
        gone, found = await self.ledger.abandoned_by(call_id), await self.ledger.question(call_id)
        if gone is None or found is None:
            return None
        earlier = await self.ledger.entries_of(call_id)
        if not isinstance(await self.stages.holder.take_over(found[0], earlier, gone), Applied):
            return None
        progress = Progress(request, call_id, repeated.args, began_at(earlier) or found[0].created_at, None)
        progress.question, progress.reserved = found[0], reserved_by(earlier)
        self._under_way.add(progress)
        self._tasks.start(self._drive(progress))
        return progress


def mode_named(name: str | None) -> Mode | None:
    try:
        return Mode(name) if name else None
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise ToolError(f"mode `{name}` is unknown", code=2002, suggestion=f"write one of {modes}") from None
