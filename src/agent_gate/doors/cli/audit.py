"""`agent-gate audit`: what was asked for, by whom, and how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, commands, examples
from agent_gate.doors.wire import Exit
from agent_gate.model.errors import ToolError

if TYPE_CHECKING:
    from agent_gate.history.query import AuditLine

SIGNATURE_CHARS_MAX = 120

app = commands()


@app.command(
    epilog=examples(
        "agent-gate audit --limit 20",
        "agent-gate audit --status denied --since 24h",
        "agent-gate audit --tool 'state.*' --agent kitchen-bot --json",
    )
)
def audit(
    limit: Limit = 100,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="Only this tool; may be a pattern.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only this agent; may be a pattern.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Only success, denied, error, expired or unknown."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only from then on: 2h, 7d or an ISO 8601 moment.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME", help="Only this project.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """List the calls in the ledger, the newest first."""
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history import query

    with reading(db) as reader:
        try:
            lines = query.audit(
                reader,
                now=time.time(),
                limit=limit,
                tool=tool,
                agent=agent,
                status=status,
                since=since,
                project=project,
            )
        except ToolError as error:
            raise UsageMistake(f"{error.problem.detail}: {error.problem.suggestion}", "agent-gate audit") from None
    if as_json:
        screen.print_json({"entries": [line.to_json() for line in lines]})
    else:
        columns = ("when", "project", "agent", "status", "call", "why", "id")
        screen.print_table(columns, map(_row, lines), empty="no calls", whole=("when", "status", "id"))
    return Exit.SUCCESS


def _row(line: AuditLine) -> tuple[object, ...]:
    first, *others = line.signatures or (line.tool or "",)
    shown = screen.shortened(first, SIGNATURE_CHARS_MAX) + (f" and {len(others)} more" if others else "")
    why = f"{line.error['code']} {line.error['name']}" if line.error else line.resolution or ""
    if line.resolved_by:
        why = f"{why} ({line.resolved_by})"
    return (
        f"{line.at[:10]} {line.at[11:19]}",
        line.project,
        line.agent_id,
        line.status,
        "erased" if line.erased else shown,
        why,
        line.call_id,
    )
