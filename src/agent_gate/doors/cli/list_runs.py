"""`agent-gate list-runs`: its options and help; the work is done where no library for commands is needed."""

from __future__ import annotations

from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, commands, examples

app = commands()


@app.command(epilog=examples("agent-gate list-runs --limit 20"))
def list_runs(limit: Limit = 100, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """List the runs in the ledger, the newest first."""
    from agent_gate.doors.cli.listing import print_runs

    return print_runs(limit=limit, db=db, as_json=as_json)
