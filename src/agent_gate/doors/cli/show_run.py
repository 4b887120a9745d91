"""`agent-gate show-run`: one run and its calls."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.wire import Exit

app = commands()


@app.command(epilog=examples("agent-gate show-run 01JCZ4…"))
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, or the beginning of its id.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Show one run: its plan, its policy, and each call with its ids and hashes."""
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history.report import run_of, steps_of
    from agent_gate.ledger.reader import one_moment

    with reading(db) as reader, one_moment(reader):
        found = run_of(reader, run)
        steps = steps_of(reader, found["run_id"])
    if as_json:
        screen.print_json({"run": found, "steps": steps})
        return Exit.SUCCESS
    screen.print_fields([(name, screen.shortened(value, 1000)) for name, value in found.items() if value is not None])
    columns = ("step", "status", "decision", "tool", "arguments", "call")
    rows = [
        (
            step.get("step_index"), step["result"]["status"], step.get("decision"), step["tool_name"],
            screen.shortened(screen.encoded(step.get("args")), 100), step["call_id"],
        )
        for step in steps
    ]  # fmt: skip
    screen.print_table(columns, rows, empty="no step was made", whole=("call",))
    return Exit.SUCCESS
