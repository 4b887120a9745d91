"""The work of `agent-gate run`: a plan of calls under a policy, step by step; options and help are in `fast_commands`.

Ctrl-C and SIGTERM end a run in good order the first time; the third leaves at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from agent_gate import Agent, Outcome, load_plan, load_policy, open_gate, run_plan
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.calling import opened_with
from agent_gate.doors.cli.ledgers import database_path
from agent_gate.doors.cli.live import live
from agent_gate.doors.cli.terminal import TerminalNotifier, may_answer
from agent_gate.doors.codes import Exit, exit_of_outcome, exit_of_problem
from agent_gate.gate.plans import BROKEN_OFF, RunResult
from agent_gate.history.reader import open_reader
from agent_gate.history.report import build_report
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import DEFAULT_LEDGER
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Mode
from agent_gate.model.visible import visible

_WOULD_BE = {"success": "would succeed", "pending_approval": "would be asked for", "unknown": "cannot be known"}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


def run_file(
    *,
    plan: Path,
    policy: Path = Path("policy.yaml"),
    config: Path | None = None,
    project: str = "default",
    mode: Mode | None = None,
    simulate: bool = False,
    with_reads: bool = False,
    no_fail_fast: bool = False,
    working_dir: Path | None = None,
    db: str = DEFAULT_LEDGER,
    as_json: bool = False,
) -> int:
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
    """Count the steps by how they would end."""
    statuses = [_WOULD_BE.get(outcome.status.value, outcome.status.value) for outcome in result.outcomes]
    return ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))


def _report(db: Path, run_id: str) -> dict[str, Any]:
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
    if result.status == "completed":
        return Exit.SUCCESS
    if result.problem:
        return Exit.INTERRUPTED if result.problem == BROKEN_OFF else exit_of_problem(result.problem)
    exits = [exit_of_outcome(outcome) for outcome in result.outcomes if not outcome.ok]
    if simulate and Exit.DENIED in exits:
        # A simulation goes on past questions: what is denied after one is what has to be mended.
        return Exit.DENIED
    return exits[0] if exits else Exit.ERROR


class Interrupts:
    """As long as it is entered, a signal cancels the task that entered it.

    Handlers of the interpreter and not of the event loop: they also run while something keeps the loop busy.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._count = 0

    @property
    def happened(self) -> bool:
        return self._count > 0

    def __enter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._count += 1
        if self._count > 2:
            _leave()
        self._loop.call_soon_threadsafe(self._end if self._count == 1 else self._explain)

    def _end(self) -> None:
        assert self._task is not None
        self._tell("ending the step that runs; no other will begin")
        self._task.cancel()

    def _explain(self) -> None:
        self._tell("still ending it; once more leaves at once, and its outcome will be recorded as unknown")


def _leave() -> None:
    """As if killed: sandboxes end with this process, and the next one settles what is open in the ledger."""
    if screen.on_terminal(sys.stdout):
        os.write(sys.stdout.fileno(), _SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)
