"""`agent-gate run`: a plan of calls under a policy, step by step."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import (
    DEFAULT_DB,
    AsJson,
    Db,
    PolicyPath,
    Project,
    ServicesOf,
    commands,
    database_path,
    examples,
)
from agent_gate.doors.wire import Exit, exit_of_outcome, exit_of_problem
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Mode
from agent_gate.model.visible import visible

if TYPE_CHECKING:
    from agent_gate.model.plan import Plan, PlanStep
    from agent_gate.model.policy import Policy
    from agent_gate.plans import RunResult

app = commands()

_WOULD_BE = {"success": "would succeed", "pending_approval": "would be asked for", "unknown": "cannot be known"}


@app.command(
    epilog=examples(
        "agent-gate run plan.yaml -p policy.yaml",
        "agent-gate run plan.yaml -p policy.yaml --simulate",
        "agent-gate run plan.yaml -p policy.yaml --no-fail-fast --json",
        "agent-gate run plan.yaml -p policy.yaml -c config.yaml",
    )
)
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan.")],
    policy: PolicyPath = Path("policy.yaml"),
    config: ServicesOf = None,
    project: Project = "default",
    mode: Annotated[Mode | None, typer.Option("--mode", help="Obey the step limit of this mode.")] = None,
    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Judge every step, do on a copy what can be; change nothing, ask nobody."),
    ] = False,
    with_reads: Annotated[bool, typer.Option("--with-reads", help="With --simulate: do perform reads.")] = False,
    no_fail_fast: Annotated[bool, typer.Option("--no-fail-fast", help="Go on after a step that failed.")] = False,
    working_dir: Annotated[
        Path | None, typer.Option("--working-dir", metavar="DIR", help="Where relative paths begin.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Run a plan: each step is judged, performed if it may be, and written down."""
    from agent_gate.config import load_plan, load_policy
    from agent_gate.doors.cli.calling import opened_with

    loaded, judged_by, ledger = load_plan(plan), load_policy(policy), database_path(db).absolute()
    around = opened_with(config, policy, plan)
    if working_dir is not None:
        _enter(working_dir)
    try:
        result = asyncio.run(
            _run(loaded, judged_by, around, ledger, project, mode, simulate, with_reads, not no_fail_fast, as_json)
        )
    except asyncio.CancelledError:  # before the run began
        return Exit.INTERRUPTED
    if as_json:
        screen.print_json(_simulated(loaded, result) if simulate else _report(ledger, result.run_id))
    else:
        _print_end(result, len(loaded.steps), simulate)
    return _exit(result, simulate)


def _enter(directory: Path) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise ConfigError(f"`{directory}` cannot be the working directory: {error.strerror}") from None


async def _run(
    plan: Plan,
    policy: Policy,
    around: dict[str, Any],
    db: Path,
    project: str,
    mode: Mode | None,
    simulate: bool,
    with_reads: bool,
    fail_fast: bool,
    quiet: bool,
) -> RunResult:
    from agent_gate import Agent, Outcome, open_gate, run_plan
    from agent_gate.doors.cli.interrupts import Interrupts
    from agent_gate.doors.cli.live import live
    from agent_gate.doors.cli.terminal import TerminalNotifier, may_answer
    from agent_gate.plans import BROKEN_OFF, RunResult

    outcomes: list[Outcome] = []

    def on_step(index: int, step: PlanStep, outcome: Outcome) -> None:
        outcomes.append(outcome)
        if not quiet:
            view.step(index, step, outcome)

    with live(plan, quiet=quiet) as view, Interrupts(view.tell):
        notifier = TerminalNotifier(policy, view.hand_over) if may_answer(policy) and not simulate else None
        agent = Agent("local", projects=("*",))
        opening = open_gate(policy, db, agent=agent, notifier=notifier, only_simulates=simulate, **around)
        async with opening as gate:
            if notifier:
                notifier.gate = gate
            run_id = gate.ids.new()
            try:
                return await run_plan(
                    gate,
                    plan,
                    project=project,
                    mode=mode.value if mode else None,
                    simulate=simulate,
                    with_reads=with_reads,
                    fail_fast=fail_fast,
                    on_begin=view.begin,
                    on_step=on_step,
                    run_id=run_id,
                )
            except asyncio.CancelledError:
                return RunResult(run_id, "failed", tuple(outcomes), BROKEN_OFF)


def _print_end(result: RunResult, steps: int, simulate: bool) -> None:
    status = screen.paint(result.status, "green" if result.status == "completed" else "red")
    if result.problem:
        made = visible(result.problem)
    elif simulate:
        made = _counted(result)
    else:
        done = sum(outcome.ok for outcome in result.outcomes)
        made = f"{done} of {screen.count(steps, 'step')} succeeded"
    if simulate:
        screen.say(f"{screen.paint('simulated', 'bold')}: {made}; nothing was written")
        return
    screen.say(f"{status}: {made}; run {result.run_id}")
    screen.say(screen.paint(f"see `agent-gate report {result.run_id}`", "dim"))


def _counted(result: RunResult) -> str:
    """How many steps would end how."""
    statuses = [_WOULD_BE.get(outcome.status.value, outcome.status.value) for outcome in result.outcomes]
    return ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))


def _report(db: Path, run_id: str) -> dict[str, Any]:
    from contextlib import closing

    from agent_gate.history.report import build_report
    from agent_gate.ledger.reader import open_reader

    with closing(open_reader(db)) as reader:
        return build_report(reader, run_id, time.time())


def _simulated(plan: Plan, result: RunResult) -> dict[str, Any]:
    return {
        "simulated": True,
        "status": result.status,
        "plan": plan.to_json(),
        "steps": [outcome.to_json() for outcome in result.outcomes],
    }


def _exit(result: RunResult, simulate: bool) -> int:
    from agent_gate.plans import BROKEN_OFF

    if result.status == "completed":
        return Exit.SUCCESS
    if result.problem:
        return Exit.INTERRUPTED if result.problem == BROKEN_OFF else exit_of_problem(result.problem)
    exits = [exit_of_outcome(outcome) for outcome in result.outcomes if not outcome.ok]
    if simulate and Exit.DENIED in exits:
        # A simulation goes on past questions: what is denied after one is what has to be mended.
        return Exit.DENIED
    return exits[0] if exits else Exit.ERROR
