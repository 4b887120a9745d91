"""Plans: one call after another under one run, until one of them is not a success."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from agent_gate.config.plan_steps import check_steps
from agent_gate.gate.gate import Gate, mode_named
from agent_gate.gate.simulation import SimulationState
from agent_gate.model.bounds import RUN_RESULTS_BYTES_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import CodecError, canonical, sha256_hex, weight
from agent_gate.model.committed import Applied, Committed
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import Problem, StorageError
from agent_gate.model.moment import iso
from agent_gate.model.outcome import NOT_KNOWN, ONLY_JUDGED, Outcome, Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.references import References, references_in
from agent_gate.model.tool import Json, Mode
from agent_gate.model.work import Close, KeepBlob, Open, Work
from agent_gate.resolve.copies import Copies

Result = TypeVar("Result")

UNREACHED = 3004
BROKEN_OFF = Problem(1020, "the run was broken off by whoever started it", "run it again")

OnStep: TypeAlias = Callable[[int, PlanStep, Outcome], None]
OnBegin: TypeAlias = Callable[[int, PlanStep], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    run_id: str
    status: str
    """`completed` where every step was a success, else `failed`."""
    outcomes: tuple[Outcome, ...]
    """Of the steps that were attempted."""
    problem: Problem | None = None
    """The reason why the run as a whole was refused."""


async def run_plan(
    gate: Gate,
    plan: Plan,
    *,
    project: str = "default",
    agent: Agent | None = None,
    mode: str | None = None,
    simulate: bool = False,
    with_reads: bool = False,
    with_previews: bool = True,
    shows_state: bool = True,
    fail_fast: bool = True,
    on_begin: OnBegin | None = None,
    on_step: OnStep | None = None,
    run_id: str | None = None,
    results_bytes_max: int = RUN_RESULTS_BYTES_MAX,
) -> RunResult:
    """Run every step in order; earlier steps stay when a later one is refused.

    PlanValidationError where a step could never be made as it is written: all are checked before the first.

    Who cancels it ends the step that runs: that step and the run are settled before the cancelling goes on.

    Simulating writes nothing; it goes on past a step that a person would have to agree to, and `with_previews` it runs
    commands, and writes files, on copies that are carried from step to step, to show the changes. `shows_state` is off
    for agents. Each outcome's `simulation` says what was done with its step.

    `results_bytes_max` bounds what the steps of an agent's run reach together; the owner's own run has no such bound.
    """
    check_steps(plan, gate.tools)
    run = _Run(gate, plan, project, agent or gate.agent, mode_named(mode), run_id, on_begin, on_step, results_bytes_max)
    if simulate:
        return await run.simulate(with_reads, with_previews, shows_state, fail_fast)
    return await run.perform(fail_fast)


class _Run:
    def __init__(
        self,
        gate: Gate,
        plan: Plan,
        project: str,
        agent: Agent,
        mode: Mode | None,
        run_id: str | None,
        on_begin: OnBegin | None,
        on_step: OnStep | None,
        results_bytes_max: int,
    ) -> None:
        self._gate, self._plan, self._project, self._agent, self._mode = gate, plan, project, agent, mode
        self._on_begin, self._on_step = on_begin, on_step
        self._run_id = run_id or gate.ids.new()
        self._outcomes: list[Outcome] = []
        self._data: dict[str, Json] = {}
        self._succeeded: set[str] = set()
        """Ids of earlier steps that were a success."""
        self._begun = False
        self._recorded_in = project
        """The project whose chain the run is written to: the gate's own where it may not be, or is not there."""
        self._bytes_max = results_bytes_max
        self._bytes_left: float = math.inf if self._is_the_owners() else results_bytes_max
        timeout_s = gate.judge.policy.global_timeout_seconds
        self._deadline = None if timeout_s is None else gate.clock.monotonic() + timeout_s

    async def perform(self, fail_fast: bool) -> RunResult:
        problem = self._too_many_steps()
        try:
            await _in_any_case(self._begin())
            if problem is None:
                problem = await self._steps(fail_fast)
        except asyncio.CancelledError:
            await _in_any_case(self._break_off())
            raise
        except BaseException as error:
            await self._end(Problem(2003, f"the run was broken off: {type(error).__name__}", "see its steps"))
            raise
        return await _in_any_case(self._end(problem))

    async def _steps(self, fail_fast: bool) -> Problem | None:
        for index, step in enumerate(self._plan.steps):
            if self._bytes_left < 0:
                return self._too_much()
            if self._on_begin:
                self._on_begin(index, step)
            args, missing = self._args(step)
            request = self._request(index, step, args)
            outcome = await (self._gate.refuse(request, missing) if missing else self._gate.submit(request))
            self._reached(index, step, outcome)
            if fail_fast and not outcome.ok:
                break
        return None

    async def _break_off(self) -> None:
        """Record what the step that runs comes to, before the end of the run; no other step is attempted."""
        try:
            outcome = await self._gate.break_off(self._run_id)
            if outcome is not None and outcome.call_id not in (known.call_id for known in self._outcomes[-1:]):
                index = len(self._outcomes)
                self._reached(index, self._plan.steps[index], outcome)
        finally:
            await self._end(BROKEN_OFF)

    async def simulate(self, with_reads: bool, with_previews: bool, shows_state: bool, fail_fast: bool) -> RunResult:
        problem = self._too_many_steps()
        if problem:
            return RunResult(self._run_id, "failed", (), problem)
        copies = Copies() if with_previews else None
        try:
            return await self._simulate(with_reads, with_previews, shows_state, fail_fast, copies)
        finally:
            if copies is not None:
                await _in_any_case(asyncio.to_thread(copies.close))

    async def _simulate(
        self, with_reads: bool, with_previews: bool, shows_state: bool, fail_fast: bool, copies: Copies | None
    ) -> RunResult:
        so_far: SimulationState | None = None
        for index, step in enumerate(self._plan.steps):
            if self._bytes_left < 0:
                return RunResult(self._run_id, "failed", tuple(self._outcomes), self._too_much())
            if self._on_begin:
                self._on_begin(index, step)
            args, missing = self._args(step)
            if missing:
                outcome = _simulated(missing)
            else:
                request = self._request(index, step, args)
                outcome, so_far = await self._gate.simulate(
                    request,
                    so_far,
                    with_reads=with_reads,
                    with_previews=with_previews,
                    shows_state=shows_state,
                    copies=copies,
                )
            self._reached(index, step, outcome)
            if fail_fast and outcome.status not in (Status.SUCCESS, Status.UNKNOWN, Status.PENDING_APPROVAL):
                break
        return RunResult(self._run_id, self._status(), tuple(self._outcomes))

    def _reached(self, index: int, step: PlanStep, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._bytes_left -= weight([outcome.data, outcome.state_diff and list(outcome.state_diff)], self._bytes_max)
        # What is shown of a step that was only judged is not what it would reach.
        if step.id and outcome.ok and outcome.simulation != ONLY_JUDGED:
            self._succeeded.add(step.id)
            if outcome.data is not None:
                self._data[step.id] = outcome.data
        if self._on_step:
            self._on_step(index, step, outcome)

    def _too_much(self) -> Problem:
        detail = f"the steps of the run have reached more than {self._bytes_max} bytes together"
        return Problem(2005, detail, "split the plan, or let its steps reach less", "perform")

    def _is_the_owners(self) -> bool:
        """Without a mode, such a run has no limits of its own."""
        return self._mode is None and self._agent is self._gate.agent

    def _too_many_steps(self) -> Problem | None:
        if self._is_the_owners():
            return None
        named, own = CallRequest(self._agent, "", {}, mode=self._mode).modes
        limits, steps = self._gate.judge.policy.limits.steps, len(self._plan.steps)
        for mode in filter(None, (named, own)):
            limit = limits.get(mode)
            if limit is not None and steps > limit:
                detail = f"the plan has {steps} steps and mode {mode.value} allows {limit}"
                return Problem(1018, detail, "split the plan or raise limits.steps", "admit")
        return None

    def _args(self, step: PlanStep) -> tuple[Mapping[str, Json], Problem | None]:
        """The step's arguments with what earlier steps reached, and what is wrong where one of them did not."""
        references = References(self._data)
        try:
            args = references.filled(dict(step.args))
        except CodecError as error:
            return {}, Problem(2002, f"`{step.tool}` with what it refers to is {error}", "refer to less", "admit")
        if not references.missing:
            return args, None
        detail = f"`{step.tool}` refers to {', '.join(references.missing)}, which "
        named = (one for one in references_in(dict(step.args)) if one.text in references.missing)
        if all(one.step_id in self._succeeded for one in named):
            look = f"see what it returned: `agent-gate show-run {self._run_id} --json`"
            return args, Problem(UNREACHED, detail + "is not in the result of that step", look, "bind")
        return args, Problem(
            UNREACHED, detail + "no earlier step reached", "let an earlier step with that id succeed", "bind"
        )

    def _request(self, index: int, step: PlanStep, args: Mapping[str, Json]) -> CallRequest:
        return CallRequest(
            self._agent,
            step.tool,
            args,
            self._project,
            confirmed=step.confirmed,
            mode=self._mode,
            run_id=self._run_id,
            step_index=index,
            run_ends_at=self._deadline,
        )

    async def _begin(self) -> None:
        """Write that the run begins.

        In a project that is not there for this agent its steps will be refused, and it is written where that is.
        """
        if not self._agent.may_use(self._project) or await self._gate.ledger.head(self._project) is None:
            self._recorded_in = GATE_PROJECT
        judge, plan_json = self._gate.judge, canonical(self._recorded_plan().to_json())
        plan_hash = sha256_hex(plan_json)
        body = {
            "agent_id": self._agent.id,
            "instance": self._gate.ledger.instance,
            "judging": judge.edition,
            "mode": "run",
            "plan_hash": plan_hash,
            "policy_hash": judge.policy_hash,
            "surroundings": judge.surroundings.to_json(),
            "total_steps": len(self._plan.steps),
        }
        plan, policy = KeepBlob(plan_hash, plan_json), KeepBlob(judge.policy_hash, canonical(dict(judge.policy.source)))
        work = Work(self._recorded_in, changes=(Open("run", self._run_id), plan, policy))
        self._begun = isinstance(await self._write(body, "running", work), Applied)

    def _recorded_plan(self) -> Plan:
        """The plan as it may be kept: without secrets."""
        steps = (replace(step, args=self._gate.recordable(step.tool, step.args) or {}) for step in self._plan.steps)
        return replace(self._plan, steps=tuple(steps))

    def _status(self) -> str:
        every_step = len(self._outcomes) == len(self._plan.steps)
        return "completed" if every_step and all(outcome.ok for outcome in self._outcomes) else "failed"

    async def _end(self, problem: Problem | None) -> RunResult:
        self._gate.end_run(self._run_id)
        status, outcomes = self._status(), tuple(self._outcomes)
        if not self._begun:
            return RunResult(self._run_id, status, outcomes, problem)
        body: dict[str, Any] = {
            "completed_steps": sum(outcome.ok for outcome in outcomes),
            "denied_steps": sum(outcome.status in (Status.DENIED, Status.EXPIRED) for outcome in outcomes),
            "failed_steps": sum(outcome.status in (Status.ERROR, Status.UNKNOWN) for outcome in outcomes),
        }
        told = problem or (outcomes[0].error if self._recorded_in != self._project and outcomes else None)
        if told:
            body["error"] = told.to_json()
        try:
            if unrecorded := await self._unrecorded():
                body["unrecorded_steps"] = unrecorded
            await self._write(body, status, Work(self._recorded_in, changes=(Close(self._run_id),)))
        except StorageError as error:
            status, problem = "failed", error.problem.at("settle")
        return RunResult(self._run_id, status, outcomes, problem)

    async def _unrecorded(self) -> int:
        """The number of steps that ended so that the ledger does not say how, or not yet."""
        failed = [one.call_id for one in self._outcomes if one.status in (Status.ERROR, Status.UNKNOWN)]
        return sum([not await self._gate.ledger.entries_of(call_id, "settled") for call_id in failed])

    async def _write(self, body: Mapping[str, Json], status: str, work: Work) -> Committed:
        draft = Draft(
            Kind.RUN,
            iso(self._gate.clock.now()),
            canonical({**body, "salt": self._gate.ids.salt()}),
            run_id=self._run_id,
            agent_id=self._agent.id,
            status=status,
        )
        return await self._gate.ledger.commit(structs.replace(work, entries=(draft,)))


def _simulated(missing: Problem) -> Outcome:
    """Of a step whose arguments nobody has: what an earlier one would have reached is unknown, not wrong."""
    if missing.code != UNREACHED:
        return Outcome(call_id="", status=Status.ERROR, error=missing, simulated=True, simulation=ONLY_JUDGED)
    unknown = replace(missing, code=2007, suggestion="")
    return Outcome(call_id="", status=Status.UNKNOWN, error=unknown, simulated=True, simulation=NOT_KNOWN)


async def _in_any_case(work: Coroutine[Any, Any, Result]) -> Result:
    """To its end, however often the caller is cancelled meanwhile; only then does the cancelling go on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
