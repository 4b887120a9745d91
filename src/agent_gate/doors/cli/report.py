"""`agent-gate report`: what a run did, for machines, as one page, or in a terminal with a timeline."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import reading
from agent_gate.doors.cli.live import ICONS
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.cli.outcomes import why
from agent_gate.doors.codes import Exit
from agent_gate.history.replay_words import in_words
from agent_gate.history.report import build_report
from agent_gate.history.report_page import render
from agent_gate.history.touched import endings
from agent_gate.model.ending import WRITES_STAY
from agent_gate.model.errors import Problem, StorageError
from agent_gate.model.moment import epoch, span
from agent_gate.model.visible import visible

Report = Mapping[str, Any]

BAR_CELLS = 12
SPAN_CHARS = 9
DETAILS_INDENT = 6
NAMES_LISTED_MAX = 50
_STYLES = {"success": "green", "denied": "red", "error": "red"}


class Format(Enum):
    """Format of a report."""

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
    with reading(db) as reader:
        built = build_report(reader, run, time.time())
    wanted = Format.JSON if as_json else format
    if wanted is Format.CONSOLE and output is None:
        _print_report(built)
        return Exit.SUCCESS
    text = render(built) if wanted is Format.HTML else screen.encoded(built, indent=True) + "\n"
    if output is None:
        screen.write(text) if wanted is Format.HTML else screen.write_json(text)
    else:
        _write(output, text)
    return Exit.SUCCESS


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write `{path}`: {error.strerror}", code=5002) from None


def _print_report(report: Report) -> None:
    _print_head(report)
    steps = report["steps"]
    if steps:
        screen.say()
        _print_timeline(steps)
    _print_touched(report)


def _print_head(report: Report) -> None:
    run, summary = report["run"], report["summary"]
    name = (report["plan"] or {}).get("name") or "run"
    status = screen.paint(run["status"], _STYLES.get(_ending(run["status"]), "yellow"))
    screen.say(f"{screen.paint(visible(name), 'bold')}  {status}  {run['run_id']}")
    counts = ", ".join(f"{number} {status}" for status, number in _counted(report).items())
    took = summary["total_duration_ms"]
    screen.print_fields(
        [
            ("mode", run["mode"]),
            ("replay of", run.get("original_run_id")),
            ("began", run["created_at"]),
            ("took", span(took) if took is not None else "not ended"),
            ("why", why(Problem.from_json(run["error"])) if "error" in run else ""),
            ("to change it", visible(run.get("error", {}).get("suggestion", ""))),
            ("steps", f"{counts or 'none made'}; {run['total_steps']} planned"),
            ("sandbox", _sandbox(summary["sandboxes"])),
            ("writes", _direct(summary["direct_writes"])),
            ("plan", run["plan_hash"]),
            ("policy", run["policy_hash"]),
        ]
    )


def _counted(report: Report) -> dict[str, int]:
    """Count the steps by their ends; while the run goes on, a step without one is under way rather than unknown."""
    is_running = report["run"]["status"] == "running"
    results = [step["result"] for step in report["steps"]]
    under_way = sum("ended_at" not in result for result in results) if is_running else 0
    counts = dict(report["summary"]["statuses"])
    if not under_way:
        return counts
    counts["unknown"] -= under_way
    return {**{status: number for status, number in counts.items() if number}, "under way": under_way}


def _ending(status: str) -> str:
    return {"completed": "success", "failed": "error"}.get(status, status)


def _sandbox(sandboxes: Sequence[str]) -> str:
    if "off" not in sandboxes:
        return ", ".join(sandboxes)
    off = screen.paint("off: the policy lets commands run without one", "red")
    return ", ".join([*(name for name in sandboxes if name != "off"), off])


def _direct(direct_writes: bool) -> str:
    return screen.paint("direct: what commands wrote was not judged", "red") if direct_writes else ""


def _print_timeline(steps: Sequence[Mapping[str, Any]]) -> None:
    begin, whole = _extent(steps)
    digits = len(str(len(steps)))
    for step in steps:
        result = step["result"]
        style = _STYLES.get(result["status"], "yellow")
        number = str(step["step_index"] + 1 if "step_index" in step else "–").rjust(digits)
        left = f"{ICONS.get(result['status'], '?')} {number}  "
        bar = _bar(result, begin, whole)
        took = (span(result["duration_ms"]) if "duration_ms" in result else "").rjust(SPAN_CHARS)
        margin = len(left) + len(bar) + len(took) + 3
        first, *others = _names(step, margin)
        screen.say(f"{screen.paint(left, style)}{screen.paint(bar, style)} {screen.paint(took, 'dim')}  {first}")
        for line in others:
            screen.say(" " * margin + line)
        _print_details(step)


def _extent(steps: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Find when the first step began, and how long it was until the last one ended."""
    timed = [step["result"] for step in steps if "started_at" in step["result"]]
    begin = min((epoch(result["started_at"]) for result in timed), default=0.0)
    return begin, max((epoch(result["ended_at"]) for result in timed), default=0.0) - begin or 1e-6


def _bar(result: Mapping[str, Any], begin: float, whole: float) -> str:
    """Draw when the step ran, within the whole run; even the shortest has a mark."""
    if "started_at" not in result:
        return " " * BAR_CELLS
    first = min(int((epoch(result["started_at"]) - begin) / whole * BAR_CELLS), BAR_CELLS - 1)
    last = max(first + 1, round((epoch(result["ended_at"]) - begin) / whole * BAR_CELLS))
    return ("·" * first + "━" * (last - first)).ljust(BAR_CELLS, "·")


def _names(step: Mapping[str, Any], margin: int) -> list[str]:
    """List the name of the step in the plan and its signatures, broken where the terminal ends."""
    names = [*([step["name"]] if "name" in step else []), *(step.get("signatures") or [step["tool_name"]])]
    width = screen.columns()
    lines: list[str] = []
    for name in map(screen.shortened, names):
        lines += textwrap.wrap(name, max(width - margin, 20)) if width else [name]
    return lines or [""]


def _print_details(step: Mapping[str, Any]) -> None:
    fields: list[tuple[str, str]] = []
    error = step["result"].get("error")
    if error:
        fields = [("why", why(Problem.from_json(error))), ("to change it", visible(error.get("suggestion", "")))]
    if "replayed" in step:
        fields.append(("replayed", visible(in_words(step["replayed"]))))
    if "approval" in step:
        approval = step["approval"]
        fields.append((approval.get("resolution", "answered"), f"by {visible(approval.get('resolved_by', 'nobody'))}"))
    if step["result"].get("files") and _has_written(step["result"]) and "replayed" not in step:
        fields.append(("undo", screen.paint(f"agent-gate revert {step['call_id']}", "dim")))
    if step.get("resources", {}).get("sandbox") == "off" and step["resources"].get("executable"):
        fields.append(("sandbox", screen.paint("off", "red")))
    screen.print_fields(fields, indent=DETAILS_INDENT)
    for line in screen.printed(step["result"].get("data")):
        screen.say(" " * DETAILS_INDENT + line)


def _has_written(result: Mapping[str, Any]) -> bool:
    return result["status"] == "success" or str(result.get("message", "")).startswith(WRITES_STAY)


def _print_touched(report: Report) -> None:
    """All that was attempted; where that did not succeed, with how it ended."""
    ended = endings(report)
    touched = [
        (kind.replace("_", " "), [(name, ended.get((kind, name), "")) for name in names])
        for kind, names in report["summary"]["resources"].items()
        if names
    ]
    if not touched:
        return
    screen.say()
    screen.say(screen.paint("touched", "bold"))
    width = max(len(kind) for kind, _ in touched)
    for kind, names in touched:
        for label, line in zip(_once(kind), _listed(names), strict=False):
            screen.say(f"  {screen.paint(label.ljust(width), 'dim')}  {line}")


def _once(label: str) -> Iterator[str]:
    yield label
    while True:
        yield ""


def _listed(names: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, ended in names[:NAMES_LISTED_MAX]:
        yield f"{screen.shortened(name)}  {screen.paint(ended, 'red')}" if ended else screen.shortened(name)
    if len(names) > NAMES_LISTED_MAX:
        yield f"and {len(names) - NAMES_LISTED_MAX} more; see --format json"
