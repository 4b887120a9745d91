"""The work of `agent-gate check`, without a library for commands: it starts in a fraction of the time."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from agent_gate.doors.cli import judging, screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.verdicts import print_line, print_verdict
from agent_gate.doors.codes import Exit, exit_of_decision
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision
from agent_gate.tools.check import Checked

DEFAULT_POLICY = Path("policy.yaml")


def run_check(
    *,
    tool: str | None = None,
    args: str | None = None,
    calls: Path | None = None,
    policy: Path = DEFAULT_POLICY,
    working_dir: Path | None = None,
    resolve: bool = False,
    roles: tuple[str, ...] = (),
    mode: Mode = Mode.ASSISTED,
    confirmed: bool = False,
    agent: str = "local",
    project: str = "default",
    explain: bool = False,
    as_json: bool = False,
) -> int:
    if (tool is None) == (calls is None):
        raise UsageMistake("give either --tool or --calls", "agent-gate check")
    if calls is not None and args is not None:
        raise UsageMistake("--args belongs to --tool; a line of --calls has its own", "agent-gate check")
    if working_dir is not None and not working_dir.is_dir():
        raise UsageMistake(f"--working-dir `{working_dir}` is not a directory", "agent-gate check")
    wish = judging.Wish(
        tool or "",
        working_dir=str(working_dir or ""),
        resolve=resolve,
        roles=roles or ("operator",),
        mode=mode,
        confirmed=confirmed,
        agent=agent,
        project=project,
    )
    judges = judging.Judges(policy, tell=screen.warn)
    if calls is not None:
        return _check_many(judges, wish, calls, as_json)
    return _check_one(judges, wish, "{}" if args is None else args, as_json, explain)


def _check_one(judges: judging.Judges, wish: judging.Wish, args: str, as_json: bool, explain: bool) -> int:
    if not as_json:
        judges.judge(None, wish.working_dir)  # the mistakes of a policy are told to people one by one
    try:
        checked = judging.answer(judges, replace(wish, args=judging.arguments_of(args)))
    except GateError as error:
        checked = judging.refused(error.problem)
    if as_json:
        screen.print_json(judging.to_json(checked, wish))
    else:
        print_verdict(checked, wish.tool, every_layer=explain)
    return _exit(checked)


def _exit(checked: Checked) -> Exit:
    problem = checked.outcome.error
    if problem is not None and problem.code == ConfigError.default_code:
        return Exit.ERROR
    return exit_of_decision(checked.outcome.decision or Decision.DENY)


def _check_many(judges: judging.Judges, defaults: judging.Wish, calls: Path, as_json: bool) -> int:
    counts = dict.fromkeys(Decision, 0)
    try:
        source = nullcontext(sys.stdin.buffer) if str(calls) == "-" else calls.open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageMistake(f"--calls `{calls}` cannot be read: {reason}", "agent-gate check") from None
    with source as file:
        for number, line in judging.lines_of(file):
            wish, checked = _check_line(judges, line, defaults)
            counts[checked.outcome.decision or Decision.DENY] += 1
            if as_json:
                screen.print_json_line(judging.to_json(checked, wish, number))
            else:
                print_line(checked, number, wish)
    if not as_json:
        screen.say(", ".join(f"{count} {decision.value}" for decision, count in counts.items() if count) or "no calls")
    return exit_of_decision(next((d for d in (Decision.DENY, Decision.ASK) if counts[d]), Decision.ALLOW))


def _check_line(judges: judging.Judges, line: bytes, defaults: judging.Wish) -> tuple[judging.Wish, Checked]:
    wish = defaults
    try:
        wish = judging.wish_of(line, defaults)
        return wish, judging.answer(judges, wish)
    except GateError as error:
        return wish, judging.refused(error.problem)
