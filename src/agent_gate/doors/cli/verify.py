"""`agent-gate verify`: whether the ledger still is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledger_path import database_path
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.history.findings import Report
from agent_gate.history.verify import verify as verify_ledger
from agent_gate.model.visible import visible

app = commands()

ANCHOR_ADVICE = {
    "missing": "its anchor is missing: a cut at the end cannot be seen",
    "empty": "its anchor is empty: a cut at the end cannot be seen",
    "no_key": "the key of its anchor is missing: the anchor cannot be trusted",
}


@app.command(
    epilog=examples(
        "agent-gate verify", "agent-gate verify 01JCZ4…", "agent-gate verify --anchor /mnt/backup/agent-gate.db.anchor"
    )
)
def verify(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run; without it, the whole ledger.")] = None,
    anchor: Annotated[
        Path | None, typer.Option("--anchor", metavar="FILE", help="A copy of the anchor that was kept elsewhere.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Check that the ledger still is what was written.

    Every hash, chain and table, the schema and the anchor are checked. The exit code is 6 where something is not.
    """
    path = database_path(db)
    with screen.working("verifying the ledger"):
        report = verify_ledger(path, run_id=run, anchor=anchor)
    if as_json:
        screen.print_json(report.to_json())
    else:
        _print(report, db)
    return Exit.SUCCESS if report.ok else Exit.MISMATCH


def _print(report: Report, db: str) -> None:
    word = screen.paint("verified" if report.ok else "broken")
    entries, projects = _entries(report.entries), screen.count(report.projects, "project")
    screen.say(f"{word}  {db}: {entries} in {projects}")
    for finding in report.problems:
        screen.say(f"  {screen.paint('✗', 'red')} {visible(finding)}")
    if report.more_problems:
        screen.say(f"  and {report.more_problems} more")
    notes = [
        f"{screen.count(report.erased, 'body', 'bodies')} erased, as the ledger says itself" if report.erased else "",
        ANCHOR_ADVICE.get(report.anchor, "") if report.ok and report.entries else "",
        *(
            f"the last {_entries(count)} of project `{visible(project)}` not anchored yet"
            for project, count in report.unanchored.items()
        ),
        *(f"{jump}, entry {jump.seq} of `_gate`, {jump.at}" for jump in report.clock_jumps),
        f"and {screen.count(report.more_clock_jumps, 'time')} before" if report.more_clock_jumps else "",
    ]
    for note in filter(None, notes):
        screen.say(screen.paint(f"  {note}", "dim"))


def _entries(number: int) -> str:
    return screen.count(number, "entry", "entries")
