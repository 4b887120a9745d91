"""`agent-gate check`: would this call be allowed, and why."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import judging, screen
from agent_gate.doors.cli.options import DEFAULT_POLICY, AsJson, PolicyPath, commands, examples
from agent_gate.doors.cli.verdicts import print_line, print_verdict
from agent_gate.doors.wire import Exit, exit_of_decision
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision
from agent_gate.policy.check import Checked

app = commands()


@app.command(
    epilog=examples(
        'agent-gate check --tool state.set --args \'{"path": "/lamp", "value": 1}\' -p policy.yaml',
        "agent-gate check --calls calls.jsonl -p policy.yaml --json",
        'echo \'{"tool": "state.get"}\' | agent-gate check --calls -',
    )
)
def check(
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="The tool that would be called.")] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Its arguments, an object.")] = None,
    calls: Annotated[
        Path | None,
        typer.Option(
            "--calls", metavar="FILE", help="Judge many calls, one JSON object a line; `-` reads them from stdin."
        ),
    ] = None,
    policy: PolicyPath = DEFAULT_POLICY,
    working_dir: Annotated[
        Path | None, typer.Option("--working-dir", metavar="DIR", help="Where relative paths begin.")
    ] = None,
    resolve: Annotated[bool, typer.Option("--resolve", help="Look up names of hosts.")] = False,  # noqa: ARG001 -- for guards
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the agent; may be repeated.")
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="How much the agent does on its own.")] = Mode.ASSISTED,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="As if the agent had confirmed the call.")] = False,
    agent: Annotated[str, typer.Option("--agent", metavar="ID", help="Who would call.")] = "local",
    project: Annotated[str, typer.Option("--project", metavar="NAME", help="Where it would happen.")] = "default",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every layer, also those with nothing to say.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Would this call be allowed, and why? Nothing is done, and no database is opened.

    A line of FILE is an object with `tool` and, where needed, `args`, `policy` (an object of its own), `working_dir`,
    `roles`, `mode`, `confirmed`, `agent`, `project`, `id`. A line that is not one is denied and does not stop the others.

    The exit code is 0 for allow, 1 for deny, 4 for ask; of many calls: 1 if any is denied, else 4 if any asks, else 0.
    """
    if (tool is None) == (calls is None):
        raise typer.BadParameter("give either --tool or --calls", param_hint="--tool")
    if calls is not None and args is not None:
        raise typer.BadParameter("belongs to --tool; a line of --calls has its own", param_hint="--args")
    if working_dir is not None and not working_dir.is_dir():
        raise typer.BadParameter(f"`{working_dir}` is not a directory", param_hint="--working-dir")
    wish = judging.Wish(
        tool or "", roles=tuple(role or ("operator",)), mode=mode, confirmed=confirmed, agent=agent, project=project
    )
    judges = judging.Judges(policy)
    if calls is not None:
        return _check_many(judges, wish, calls, as_json)
    return _check_one(judges, wish, "{}" if args is None else args, as_json, explain)


def _check_one(judges: judging.Judges, wish: judging.Wish, args: str, as_json: bool, explain: bool) -> int:
    try:
        checked = judging.answer(judges, judging.replace(wish, args=judging.arguments_of(args)))
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
    from_stdin = str(calls) == "-"
    with nullcontext(sys.stdin.buffer) if from_stdin else calls.open("rb") as file:
        for number, line in judging.lines_of(file):
            wish = defaults
            try:
                wish = judging.wish_of(line, defaults)
                checked = judging.answer(judges, wish)
            except GateError as error:
                checked = judging.refused(error.problem)
            counts[checked.outcome.decision or Decision.DENY] += 1
            if as_json:
                screen.print_json_line(judging.to_json(checked, wish, number))
            else:
                print_line(checked, number, wish)
    if not as_json:
        total = ", ".join(f"{count} {decision.value}" for decision, count in counts.items() if count)
        screen.say(total or "no calls")
    return exit_of_decision(next((d for d in (Decision.DENY, Decision.ASK) if counts[d]), Decision.ALLOW))
