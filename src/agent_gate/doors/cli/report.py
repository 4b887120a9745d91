"""`agent-gate report`: what a run did, for the terminal, for machines, or as one page."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit
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
        from agent_gate.doors.cli.report_console import print_report

        print_report(built)
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
