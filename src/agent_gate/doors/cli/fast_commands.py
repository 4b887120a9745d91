"""Options and help of the commands that the fast path serves; their work is in `check`, `run` and `list_runs`.

Those do not import Typer, so that a plain command line starts without it: see `fast_path`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli.check import DEFAULT_POLICY, run_check
from agent_gate.doors.cli.list_runs import print_runs
from agent_gate.doors.cli.options import (
    DEFAULT_DB,
    AsJson,
    Db,
    Limit,
    PolicyPath,
    Project,
    ServicesOf,
    commands,
    examples,
)
from agent_gate.doors.cli.run import run_file
from agent_gate.model.tool import Mode

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
    resolve: Annotated[bool, typer.Option("--resolve", help="Look up names of hosts.")] = False,
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
    """Would this call be allowed, and why?

    Nothing is done, and no database is opened.

    A line of FILE is an object with `tool` and, where needed, `args`, `policy` (an object of its own), `working_dir`,
    `roles`, `mode`, `confirmed`, `agent`, `project`, `id`. A line that is not one is denied, and the others are judged.

    The exit code is 0 for allow, 1 for deny, 4 for ask; of many calls: 1 if any is denied, else 4 if any asks, else 0.
    """
    return run_check(
        tool=tool,
        args=args,
        calls=calls,
        policy=policy,
        working_dir=working_dir,
        resolve=resolve,
        roles=tuple(role or ()),
        mode=mode,
        confirmed=confirmed,
        agent=agent,
        project=project,
        explain=explain,
        as_json=as_json,
    )


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
    return run_file(
        plan=plan,
        policy=policy,
        config=config,
        project=project,
        mode=mode,
        simulate=simulate,
        with_reads=with_reads,
        no_fail_fast=no_fail_fast,
        working_dir=working_dir,
        db=db,
        as_json=as_json,
    )


@app.command("list-runs", epilog=examples("agent-gate list-runs --limit 20"))
def list_runs(limit: Limit = 100, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """List the runs in the ledger, the newest first."""
    return print_runs(limit=limit, db=db, as_json=as_json)
