"""`agent-gate export`: the record as lines of JSON, to keep or to check elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.model.errors import StorageError

app = commands()

TOLD_EVERY = 1000
"""Entries between two signs of life."""


class Format(Enum):
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
    from agent_gate.doors.cli.ledgers import reading
    from agent_gate.history.export import export as lines_of

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
