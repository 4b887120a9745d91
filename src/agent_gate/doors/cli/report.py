"""`agent-gate report`: what a run did, for the terminal, for machines, or as one page."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.live import ICONS
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.wire import Exit
from agent_gate.model.errors import StorageError


class Format(Enum):
    CONSOLE = "console"
    JSON = "json"
    HTML = "html"


app = commands()


@app.command(
    epilog=examples(
        "agent-gate report 01JCZ4…",
        "agent-gate report 01JCZ4… --format html --output report.html",
        "agent-gate report 01JCZ4… --format json",
    )
)
def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, or the beginning of its id.")],
    format: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.CONSOLE,  # noqa: A002
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Show what a run did: each step, what it touched, what was denied and how to allow it."""
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history.report import build_report
    from agent_gate.history.report_page import render

    with reading(db) as reader:
        built = build_report(reader, run, time.time())
    wanted = Format.JSON if as_json else format
    if wanted is Format.CONSOLE and output is None:
        _print(built)
        return Exit.SUCCESS
    text = render(built) if wanted is Format.HTML else screen.encoded(built, indent=True) + "\n"
    if output is None:
        screen.write(text)
    else:
        _write(output, text)
    return Exit.SUCCESS


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write `{path}`: {error.strerror}", code=5002) from None


def _print(report: dict[str, Any]) -> None:
    run, summary = report["run"], report["summary"]
    name = (report["plan"] or {}).get("name") or "run"
    screen.say(f"{screen.paint(screen.safe(name), 'bold')}  {screen.paint(run['status'])}  {run['run_id']}")
    counts = ", ".join(f"{number} {status}" for status, number in summary["statuses"].items())
    took = summary["total_duration_ms"]
    screen.print_fields(
        [
            ("mode", run["mode"]),
            ("began", run["created_at"]),
            ("took", f"{took:,.1f} ms" if took is not None else "not ended"),
            ("steps", f"{counts or 'none made'}; {run['total_steps']} planned"),
            ("plan", run["plan_hash"]),
            ("policy", run["policy_hash"]),
        ]
    )
    for step in report["steps"]:
        _print_step(step)
    _print_resources(summary["resources"])


def _print_step(step: dict[str, Any]) -> None:
    result = step["result"]
    status = result["status"]
    names = step.get("signatures") or [step["tool_name"]]
    took = f"{result['duration_ms']:,.1f} ms" if result.get("duration_ms") is not None else ""
    screen.say(
        f"{screen.paint(ICONS.get(status, '?'), '')} {step.get('step_index', '')}  {screen.paint(status)}"
        f"  {'  '.join(map(screen.shortened, names))}  {screen.paint(took, 'dim')}"
    )
    error = result.get("error")
    if error:
        screen.print_fields(
            [
                ("why", f"{screen.safe(error.get('detail', ''))} ({error['code']} {error['name']})"),
                ("to change it", screen.safe(error.get("suggestion", ""))),
            ],
            indent=6,
        )
    if "approval" in step:
        approval = step["approval"]
        screen.say(f"      {approval.get('resolution')} by {screen.safe(approval.get('resolved_by', 'nobody'))}")


def _print_resources(resources: dict[str, list[str]]) -> None:
    touched = [(kind.replace("_", " "), names) for kind, names in resources.items() if names]
    if touched:
        screen.say(screen.paint("touched", "dim"))
        screen.print_fields([(kind, ", ".join(map(screen.shortened, names))) for kind, names in touched])
