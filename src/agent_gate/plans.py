"""Plans: one call after another under one run, until one of them is not a success."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.entry import Applied, Committed, Draft, Kind, Work
from agent_gate.model.errors import PlanValidationError, Problem, StorageError
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json, Mode
from agent_gate.runtime import Gate, Imagined, mode_named

_REFERENCE = re.compile(r"\$\{steps\.([A-Za-z_][A-Za-z0-9_-]*)\.data((?:\.[A-Za-z0-9_-]+)*)\}")


OnStep: TypeAlias = Callable[[int, PlanStep, Outcome], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    run_id: str
    status: str
    """`completed` where every step was a success, else `failed`."""
    outcomes: tuple[Outcome, ...]
    """Of the steps that were attempted."""
    problem: Problem | None = None
    """Why the run as a whole was refused."""


async def run_plan(
    gate: Gate,
    plan: Plan,
    *,
    project: str = "default",
    agent: Agent | None = None,
    mode: str | None = None,
    simulate: bool = False,
    with_reads: bool = False,
    fail_fast: bool = True,
    on_step: OnStep | None = None,
) -> RunResult:
    """Run every step in order; earlier steps stay when a later one is refused. Simulating writes nothing."""
    _refuse_unknown_tools(gate, plan)
    run = _Run(gate, plan, project, agent or gate.agent, mode_named(mode))
    if simulate:
        return await run.simulate(with_reads, fail_fast, on_step)
    return await run.perform(fail_fast, on_step)


def _refuse_unknown_tools(gate: Gate, plan: Plan) -> None:
    for index, step in enumerate(plan.steps):
        if gate.tools.find(step.tool) is None:
            raise PlanValidationError(
                f"steps[{index}].tool: `{step.tool}` is not a tool here",
                code=3003,
                suggestion="`agent-gate tools` lists them",
            )


class _Run:
    def __init__(self, gate: Gate, plan: Plan, project: str, agent: Agent, mode: Mode | None) -> None:
        self._gate, self._plan, self._project, self._agent, self._mode = gate, plan, project, agent, mode
        self._run_id = gate.ids.new()
        self._data: dict[str, Json] = {}
        """What earlier steps with an id reached."""
        self._begun = False
        timeout_s = gate.judge.policy.global_timeout_seconds
        self._deadline = None if timeout_s is None else gate.clock.monotonic() + timeout_s

    async def perform(self, fail_fast: bool, on_step: OnStep | None) -> RunResult:
        await self._begin()
        problem = self._too_many_steps()
        outcomes: list[Outcome] = []
        try:
            if problem is None:
                await self._steps(outcomes, fail_fast, on_step)
        except BaseException as error:
            await self._end(outcomes, Problem(2003, f"the run was broken off: {type(error).__name__}", "see its steps"))
            raise
        return await self._end(outcomes, problem)

    async def _steps(self, outcomes: list[Outcome], fail_fast: bool, on_step: OnStep | None) -> None:
        for index, step in enumerate(self._plan.steps):
            args, missing = self._args(step)
            request = self._request(index, step, args)
            outcome = await (self._gate.refuse(request, missing) if missing else self._gate.submit(request))
            outcomes.append(outcome)
            self._remember(step, outcome)
            if on_step:
                on_step(index, step, outcome)
            if fail_fast and not outcome.ok:
                break

    async def simulate(self, with_reads: bool, fail_fast: bool, on_step: OnStep | None) -> RunResult:
        problem = self._too_many_steps()
        if problem:
            return RunResult(self._run_id, "failed", (), problem)
        so_far: Imagined | None = None
        outcomes: list[Outcome] = []
        for index, step in enumerate(self._plan.steps):
            args, missing = self._args(step)
            if missing:
                unknown = replace(missing, code=2007, suggestion="")
                outcome = Outcome(call_id="", status=Status.UNKNOWN, error=unknown, simulated=True)
            else:
                request = self._request(index, step, args)
                outcome, so_far = await self._gate.simulate(request, so_far, with_reads=with_reads)
            outcomes.append(outcome)
            self._remember(step, outcome)
            if on_step:
                on_step(index, step, outcome)
            if fail_fast and outcome.status not in (Status.SUCCESS, Status.UNKNOWN):
                break
        return RunResult(self._run_id, _status(outcomes, len(self._plan.steps)), tuple(outcomes))

    def _too_many_steps(self) -> Problem | None:
        """A run of the owner's without a mode has no limit of its own."""
        if self._mode is None and self._agent is self._gate.agent:
            return None
        mode = self._mode.capped_by(self._agent.mode) if self._mode else self._agent.mode
        limit = self._gate.judge.policy.limits.steps.get(mode)
        steps = len(self._plan.steps)
        if limit is None or steps <= limit:
            return None
        return Problem(
            1018,
            f"the plan has {steps} steps and mode {mode.value} allows {limit}",
            "split the plan or raise limits.steps",
            "admit",
        )

    def _args(self, step: PlanStep) -> tuple[Mapping[str, Json], Problem | None]:
        """The step's arguments with what earlier steps reached, and what is wrong where one of them did not."""
        references = _References(self._data)
        args = references.filled(dict(step.args))
        if not references.missing:
            return args, None
        detail = f"`{step.tool}` refers to {', '.join(references.missing)}, which no earlier step reached"
        return args, Problem(3004, detail, "let an earlier step with that id succeed", "bind")

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

    def _remember(self, step: PlanStep, outcome: Outcome) -> None:
        if step.id and outcome.ok and outcome.data is not None:
            self._data[step.id] = outcome.data

    async def _begin(self) -> None:
        """Write that the run begins; in a project that is not there for this agent only the refusals are written."""
        if not self._agent.may_use(self._project):
            return
        judge, plan_json = self._gate.judge, canonical(self._recorded_plan().to_json())
        plan_hash = sha256_hex(plan_json)
        body = {
            "agent_id": self._agent.id,
            "instance": self._gate.ledger.instance,
            "mode": "run",
            "plan_hash": plan_hash,
            "policy_hash": judge.policy_hash,
            "surroundings": judge.surroundings.to_json(),
            "total_steps": len(self._plan.steps),
        }
        blobs = ((plan_hash, plan_json), (judge.policy_hash, canonical(dict(judge.policy.source))))
        work = Work(self._project, opens=("run", self._run_id), blobs=blobs)
        self._begun = isinstance(await self._write(body, "running", work), Applied)

    def _recorded_plan(self) -> Plan:
        """The plan as it may be kept: without secrets."""
        steps = (replace(step, args=self._gate.recordable(step.tool, step.args) or {}) for step in self._plan.steps)
        return replace(self._plan, steps=tuple(steps))

    async def _end(self, outcomes: list[Outcome], problem: Problem | None) -> RunResult:
        status = _status(outcomes, len(self._plan.steps))
        if not self._begun:
            return RunResult(self._run_id, status, tuple(outcomes), problem)
        body: dict[str, Any] = {
            "completed_steps": sum(outcome.ok for outcome in outcomes),
            "denied_steps": sum(outcome.status in (Status.DENIED, Status.EXPIRED) for outcome in outcomes),
            "failed_steps": sum(outcome.status in (Status.ERROR, Status.UNKNOWN) for outcome in outcomes),
        }
        if problem:
            body["error"] = problem.to_json()
        try:
            await self._write(body, status, Work(self._project, closes=self._run_id))
        except StorageError as error:
            status, problem = "failed", error.problem.at("settle")
        return RunResult(self._run_id, status, tuple(outcomes), problem)

    async def _write(self, body: Mapping[str, Json], status: str, work: Work) -> Committed:
        draft = Draft(
            Kind.RUN,
            iso(self._gate.clock.now()),
            canonical({**body, "salt": self._gate.ids.salt()}),
            run_id=self._run_id,
            agent_id=self._agent.id,
            status=status,
        )
        return await self._gate.ledger.commit(replace(work, entries=(draft,)))


def _status(outcomes: list[Outcome], steps: int) -> str:
    return "completed" if len(outcomes) == steps and all(outcome.ok for outcome in outcomes) else "failed"


class _References:
    """Fills in what earlier steps reached, and notes what none of them did."""

    def __init__(self, data: Mapping[str, Json]) -> None:
        self._data = data
        self.missing: list[str] = []

    def filled(self, value: Json) -> Json:
        """A reference that is a whole text keeps its type; inside a text it stands as text."""
        if isinstance(value, dict):
            return {key: self.filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.filled(part) for part in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        return self._resolved(whole) if whole else _REFERENCE.sub(self._as_text, value)

    def _as_text(self, match: re.Match[str]) -> str:
        value = self._resolved(match)
        return value if isinstance(value, str) else canonical(value).decode()

    def _resolved(self, match: re.Match[str]) -> Json:
        value = self._data.get(match[1], _MISSING)
        for part in match[2].split(".")[1:]:
            if isinstance(value, dict):
                value = value.get(part, _MISSING)
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = _MISSING
        if value is not _MISSING:
            return value
        self.missing.append(match.group())
        return match.group()


_MISSING = object()
