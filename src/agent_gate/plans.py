"""Plans: one call after another under one run, until one of them is not a success."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.entry import Draft, Kind, ProjectState, Work
from agent_gate.model.errors import PlanValidationError, Problem
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json, Mode
from agent_gate.runtime import Gate

_REFERENCE = re.compile(r"\$\{steps\.([A-Za-z_][A-Za-z0-9_-]*)\.data((?:\.[A-Za-z0-9_-]+)*)\}")


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
    on_step: Callable[[int, PlanStep, Outcome], None] | None = None,
) -> RunResult:
    """Run every step in order; earlier steps stay when a later one is refused. Simulating writes nothing."""
    _refuse_unknown_tools(gate, plan)
    run = _Run(gate, plan, project, agent or gate.agent, Mode(mode) if mode else None)
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
        timeout_s = gate.judge.policy.global_timeout_seconds
        self._deadline = None if timeout_s is None else gate.clock.monotonic() + timeout_s

    async def perform(self, fail_fast: bool, on_step: Callable[[int, PlanStep, Outcome], None] | None) -> RunResult:
        await self._begin()
        problem = self._too_many_steps()
        outcomes: list[Outcome] = []
        if problem is None:
            outcomes = await self._steps(fail_fast, on_step)
        return await self._end(outcomes, problem)

    async def _steps(self, fail_fast: bool, on_step: Callable[[int, PlanStep, Outcome], None] | None) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for index, step in enumerate(self._plan.steps):
            outcome = await self._submit(self._request(index, step))
            outcomes.append(outcome)
            self._remember(step, outcome)
            if on_step:
                on_step(index, step, outcome)
            if fail_fast and not outcome.ok:
                break
        return outcomes

    async def _submit(self, request: CallRequest) -> Outcome:
        if _has_reference(request.args):
            problem = Problem(3004, f"`{request.tool}` refers to data that no earlier step reached", stage="bind")
            return await self._gate.refuse(request, problem)
        return await self._gate.submit(request)

    async def simulate(
        self, with_reads: bool, fail_fast: bool, on_step: Callable[[int, PlanStep, Outcome], None] | None
    ) -> RunResult:
        problem = self._too_many_steps()
        if problem:
            return RunResult(self._run_id, "failed", (), problem)
        state: ProjectState | None = None
        outcomes: list[Outcome] = []
        for index, step in enumerate(self._plan.steps):
            request = replace(self._request(index, step), simulate=True)
            if _has_reference(request.args):
                outcome = _value_missing(step)
            else:
                outcome, state = await self._gate.simulate(request, state, with_reads=with_reads)
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

    def _request(self, index: int, step: PlanStep) -> CallRequest:
        left_s = None if self._deadline is None else self._deadline - self._gate.clock.monotonic()
        return CallRequest(
            self._agent,
            step.tool,
            _filled(dict(step.args), self._data),
            self._project,
            confirmed=step.confirmed,
            mode=self._mode,
            run_id=self._run_id,
            step_index=index,
            time_left_s=left_s,
        )

    def _remember(self, step: PlanStep, outcome: Outcome) -> None:
        if step.id and outcome.ok and outcome.data is not None:
            self._data[step.id] = outcome.data

    async def _begin(self) -> None:
        judge, plan_json = self._gate.judge, canonical(self._plan.to_json())
        plan_hash = sha256_hex(plan_json)
        body = {
            "agent_id": self._agent.id,
            "instance": self._gate.ledger.instance,
            "mode": "run",
            "plan_hash": plan_hash,
            "policy_hash": judge.policy_hash,
            "total_steps": len(self._plan.steps),
        }
        blobs = ((plan_hash, plan_json), (judge.policy_hash, canonical(dict(judge.policy.source))))
        await self._write(body, "running", Work(self._project, opens=("run", self._run_id), blobs=blobs))

    async def _end(self, outcomes: list[Outcome], problem: Problem | None) -> RunResult:
        status = _status(outcomes, len(self._plan.steps))
        body: dict[str, Any] = {
            "completed_steps": sum(outcome.ok for outcome in outcomes),
            "denied_steps": sum(outcome.status in (Status.DENIED, Status.EXPIRED) for outcome in outcomes),
            "failed_steps": sum(outcome.status in (Status.ERROR, Status.UNKNOWN) for outcome in outcomes),
        }
        if problem:
            body["error"] = problem.to_json()
        await self._write(body, status, Work(self._project, closes=self._run_id))
        return RunResult(self._run_id, status, tuple(outcomes), problem)

    async def _write(self, body: Mapping[str, Json], status: str, work: Work) -> None:
        draft = Draft(
            Kind.RUN,
            iso(self._gate.clock.now()),
            canonical({**body, "salt": self._gate.ids.salt()}),
            run_id=self._run_id,
            agent_id=self._agent.id,
            status=status,
        )
        await self._gate.ledger.commit(replace(work, entries=(draft,)))


def _status(outcomes: list[Outcome], steps: int) -> str:
    return "completed" if len(outcomes) == steps and all(outcome.ok for outcome in outcomes) else "failed"


def _value_missing(step: PlanStep) -> Outcome:
    problem = Problem(2007, f"`{step.tool}` needs a value that no step has reached in this simulation", stage="bind")
    return Outcome(call_id="", status=Status.UNKNOWN, error=problem, simulated=True)


def _filled(value: Json, data: Mapping[str, Json]) -> Json:
    """References replaced by what earlier steps reached; one that is a whole text keeps its type."""
    if isinstance(value, dict):
        return {key: _filled(part, data) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, data) for part in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        found = _resolved(whole, data)
        return value if found is _MISSING else found
    return _REFERENCE.sub(lambda match: _as_text(_resolved(match, data), match.group()), value)


_MISSING = object()


def _resolved(match: re.Match[str], data: Mapping[str, Json]) -> Json:
    value = data.get(match[1], _MISSING)
    for part in match[2].split(".")[1:]:
        if isinstance(value, dict):
            value = value.get(part, _MISSING)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _as_text(value: Json, reference: str) -> str:
    if value is _MISSING:
        return reference
    return value if isinstance(value, str) else canonical(value).decode()


def _has_reference(value: Json) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_reference, value.values()))
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, str) and _REFERENCE.search(value) is not None
