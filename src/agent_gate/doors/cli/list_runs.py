"""The work of `agent-gate list-runs`; options and help are in `fast_commands`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import reading
from agent_gate.doors.codes import Exit
from agent_gate.history import query
from agent_gate.model.codec import restore
from agent_gate.model.ledger_names import DEFAULT_LEDGER

NAMES_FROM_COLUMNS = 110
"""A terminal that is narrower has no room for what plans are called."""
WHY_CHARS_MAX = 300


def print_runs(*, limit: int = 100, db: str = DEFAULT_LEDGER, as_json: bool = False) -> int:
    with reading(db) as reader:
        runs = query.runs(reader, limit)
    if as_json:
        screen.print_json({"runs": runs})
        return Exit.SUCCESS
    named = (screen.columns() or NAMES_FROM_COLUMNS) >= NAMES_FROM_COLUMNS
    columns = ("when", "mode", "status", "✓", "✗", "!", "of", "run", *(["plan"] if named else []))
    rows = [
        (
            f"{run['created_at'][:10]} {run['created_at'][11:16]}", run["mode"], run["status"],
            run["completed_steps"], run["denied_steps"], run["failed_steps"], run["total_steps"], run["run_id"],
            *([_plan_name(run)] if named else []),
        )
        for run in runs
    ]  # fmt: skip
    screen.print_table(columns, rows, empty="no runs", whole=columns[:8])
    screen.print_fields([(run["run_id"], _why(run["error"])) for run in runs if "error" in run])
    if rows:
        screen.say(screen.paint("✓ succeeded, ✗ denied, ! failed; `agent-gate report RUN` tells more", "dim"))
    return Exit.SUCCESS


def _why(error: Mapping[str, Any]) -> str:
    """Tell why a run as a whole was refused or broken off, and what would help."""
    told = f"{error.get('detail', '')} ({error['code']} {error['name']})"
    return screen.shortened(f"{told}; {error['suggestion']}" if error.get("suggestion") else told, WHY_CHARS_MAX)


def _plan_name(run: Mapping[str, Any]) -> str:
    return screen.shortened(restore(run["plan_json"].encode()).get("name", ""), 60) if run.get("plan_json") else ""
