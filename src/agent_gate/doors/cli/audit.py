"""`agent-gate audit`: what was asked for, by whom, and how it ended."""

from __future__ import annotations

import heapq
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso

if TYPE_CHECKING:
    from agent_gate.history.clock_jumps import ClockJump
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
    """List the calls in the ledger, the newest first, and when the clock was set."""
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history import query
    from agent_gate.history.clock_jumps import clock_jumps

    now, whole = time.time(), tool is agent is status is None and project in (None, GATE_PROJECT)
    with reading(db) as reader:
        try:
            lines = query.audit(
                reader,
                now=now,
                limit=limit,
                tool=tool,
                agent=agent,
                status=status,
                since=since,
                project=project,
            )
            jumps = clock_jumps(reader, limit, _moment(since, now)) if whole else []
        except ToolError as error:
            raise UsageMistake(f"{error.problem.detail}: {error.problem.suggestion}", "agent-gate audit") from None
    if as_json:
        told = {"clock_jumps": [jump.to_json() for jump in jumps]} if jumps else {}
        screen.print_json({"entries": [line.to_json() for line in lines], **told})
    else:
        columns = ("when", "project", "agent", "status", "call", "why", "id")
        rows = heapq.merge(
            ((line.at, _row(line)) for line in lines),
            ((jump.at, _jump_row(jump)) for jump in jumps),
            key=itemgetter(0),
            reverse=True,
        )
        shown = [row for _, row in rows][:limit]
        screen.print_table(columns, shown, empty="no calls", whole=("when", "status", "id"))
    return Exit.SUCCESS


def _moment(since: str | None, now: float) -> str:
    from agent_gate.history.query import moment_since

    return "" if since is None else iso(moment_since(since, now))


def _jump_row(jump: ClockJump) -> tuple[object, ...]:
    return f"{jump.at[:10]} {jump.at[11:19]}", GATE_PROJECT, "", "clock", str(jump), "", ""


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
