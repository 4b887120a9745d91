"""`agent-gate run`: its options and help; the work is done where no library for commands is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, PolicyPath, Project, ServicesOf, commands, examples
from agent_gate.model.tool import Mode

app = commands()


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
    from agent_gate.doors.cli.running import run_file

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
