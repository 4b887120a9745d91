"""`agent-gate list-runs`: the runs in the ledger."""

from __future__ import annotations

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, commands, examples
from agent_gate.doors.wire import Exit

app = commands()


@app.command(epilog=examples("agent-gate list-runs --limit 20"))
def list_runs(limit: Limit = 100, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """List the runs in the ledger, the newest first."""
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history import query

    with reading(db) as reader:
        runs = query.runs(reader, limit)
    if as_json:
        screen.print_json({"runs": runs})
        return Exit.SUCCESS
    columns = ("when", "mode", "status", "steps", "succeeded", "denied", "failed", "run")
    rows = [
        (
            f"{run['created_at'][:10]} {run['created_at'][11:19]}", run["mode"], run["status"], run["total_steps"],
            run["completed_steps"], run["denied_steps"], run["failed_steps"], run["run_id"],
        )
        for run in runs
    ]  # fmt: skip
    screen.print_table(columns, rows, empty="no runs", whole=("when", "run"))
    return Exit.SUCCESS
