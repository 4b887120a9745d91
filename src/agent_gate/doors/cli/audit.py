"""`agent-gate audit` lists what was asked for, by whom, and how it ended; `agent-gate export` writes it all out."""

from __future__ import annotations

import heapq
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import reading
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.history import query
from agent_gate.history.clock_jumps import ClockJump, clock_jumps
from agent_gate.history.export import export as lines_of
from agent_gate.history.query import AuditLine, moment_since
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import StorageError, ToolError
from agent_gate.model.moment import iso

SIGNATURE_CHARS_MAX = 120
TOLD_EVERY = 1000
"""Entries between two signs of life."""

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


class Format(Enum):
    """Format of an export."""

    JSONL = "jsonl"


@app.command(
    epilog=examples(
        "agent-gate export --format jsonl > record.jsonl", "agent-gate export --output record.jsonl --project home"
    )
)
def export(
    format: Annotated[Format, typer.Option("--format", help="One JSON object a line.")] = Format.JSONL,  # noqa: A002, ARG001
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file, readable by you alone.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME", help="Only this project's chain.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Print every entry of the ledger, with its body and its hashes."""
    with reading(db) as reader, closing(_generator(lines_of(reader, project=project, run_id=run))) as lines:
        if output is None:
            for line in lines:
                screen.write_json(line.decode())
            return Exit.SUCCESS
        with screen.working("exporting") as told:
            count = _write(output, _counted(lines, told))
    if as_json:
        screen.print_json({"output": str(output), "entries": count})
    else:
        print(f"{screen.count(count, 'entry', 'entries')} in {output}", file=sys.stderr)
    return Exit.SUCCESS


def _generator(lines: Iterator[bytes]) -> Generator[bytes, None, None]:
    """Closed while the ledger is still open, also where the reader of our output goes away."""
    yield from lines


def _counted(lines: Iterable[bytes], told: Callable[[int], None]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number % TOLD_EVERY == 0:
            told(number)
        yield line


def _write(path: Path, lines: Iterable[bytes]) -> int:
    """A new file only: what is there may be the ledger itself."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"cannot make `{path}`: {reason}", suggestion="name a new file") from None
    count = 0
    try:
        with open(descriptor, "wb") as file:
            for line in lines:
                file.write(line)
                count += 1
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StorageError(f"cannot write `{path}`: {error.strerror}", suggestion="make room for it") from None
    return count
