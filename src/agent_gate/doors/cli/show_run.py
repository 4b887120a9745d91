"""`agent-gate show-run`: one run and its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import reading
from agent_gate.doors.cli.live import ICONS
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.cli.outcomes import why
from agent_gate.doors.codes import Exit
from agent_gate.history.replay_words import in_words
from agent_gate.history.report import run_of, steps_shown
from agent_gate.model.codec import restore
from agent_gate.model.errors import Problem
from agent_gate.model.visible import visible

app = commands()

ARGUMENT_CHARS_MAX = 300
STEP_INDENT = 5
LABELS = {
    "run_id": "run",
    "name": "plan",
    "description": "",
    "mode": "mode",
    "original_run_id": "replay of",
    "status": "status",
    "why": "why",
    "remedy": "to change it",
    "created_at": "began",
    "completed_at": "ended",
    "total_steps": "steps",
    "completed_steps": "succeeded",
    "denied_steps": "denied",
    "failed_steps": "failed",
    "plan_hash": "plan hash",
    "policy_hash": "policy hash",
}
"""Fields of the run that are told, from its plan and its row, and their names here."""


@app.command(epilog=examples("agent-gate show-run 01JCZ4…", "agent-gate show-run 01JCZ4… --json"))
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, or the beginning of its id.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Show one run: its plan, its policy, and each call with its ids and hashes."""
    with reading(db) as reader, reader.one_moment():
        found = run_of(reader, run)
        steps = steps_shown(reader, found)
    if as_json:
        screen.print_json({"run": found, "steps": steps})
        return Exit.SUCCESS
    plan = restore(found["plan_json"].encode()) if found["plan_json"] else {}
    fields = {**plan, **found, **_ending(found)}
    screen.print_fields(
        [
            (label, screen.shortened("" if fields.get(name) is None else fields[name], 1000))
            for name, label in LABELS.items()
        ]
    )
    for step in steps:
        _print_step(step)
    screen.say(screen.paint("the plan and the policy as they were, and every result: --json", "dim"))
    return Exit.SUCCESS


def _ending(run: Mapping[str, Any]) -> dict[str, str]:
    """Tell why the run as a whole was refused or broken off, and what would help."""
    if "error" not in run:
        return {}
    return {"why": why(Problem.from_json(run["error"])), "remedy": run["error"].get("suggestion", "")}


def _print_step(step: Mapping[str, Any]) -> None:
    result = step["result"]
    number = step["step_index"] + 1 if "step_index" in step else "–"
    tool, status = screen.shortened(step["tool_name"]), result["status"]
    screen.say()
    screen.say(f"{ICONS.get(status, '?')} {number}  {tool}  {screen.paint(status)}")
    screen.print_fields(
        [
            ("call", step["call_id"]),
            ("verdict", step.get("decision")),
            ("replayed", visible(in_words(step["replayed"])) if "replayed" in step else ""),
            ("why", why(Problem.from_json(result["error"])) if "error" in result else ""),
            ("arguments", screen.shortened(screen.encoded(step.get("args")), ARGUMENT_CHARS_MAX)),
            ("input", result.get("input_hash")),
            ("output", result.get("output_hash")),
        ],
        indent=STEP_INDENT,
    )
    for line in screen.printed(result.get("data")):
        screen.say(" " * STEP_INDENT + line)
