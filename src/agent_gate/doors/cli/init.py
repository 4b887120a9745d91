"""`agent-gate init`: the files that a new user needs, ready to be changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, commands, database_path, examples
from agent_gate.doors.wire import Exit
from agent_gate.model.errors import ConfigError

STARTER = Path(__file__).parent / "starter"
FILES = ("policy.yaml", "plan.yaml")
IGNORED = ("*.db", "*.db-*", "*.db.anchor*", "*.db.d/")
"""A database, its companions and its keys have no place in a repository."""

app = commands()


@app.command(epilog=examples("agent-gate init", "agent-gate init my-project --force"))
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="PATH", envvar="AGENT_GATE_DB", help="The ledger; DIR/agent-gate.db if not named."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a policy and a plan to begin with, and create the database.

    The policy denies what it does not allow, and says in comments how to change that. Nothing that exists is replaced
    without --force; a database never is.
    """
    path = database_path(db) if db is not None else directory / DEFAULT_DB
    _prepare(directory, force)
    is_new = not path.exists()
    _create_database(path)
    written = [_write(directory / name, (STARTER / name).read_bytes()) for name in FILES]
    added = _add_to_gitignore(directory / ".gitignore", path)
    if as_json:
        created = [*written, *([str(directory / ".gitignore")] if added else []), *([str(path)] if is_new else [])]
        screen.print_json({"created": created, "database": str(path)})
    else:
        _say_what_next(directory, path, is_new, added)
    return Exit.SUCCESS


def _prepare(directory: Path, force: bool) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        there = [directory / name for name in FILES if os.path.lexists(directory / name)]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"`{directory}` cannot be made: {reason}", suggestion="name another directory") from None
    if there and not force:
        raise ConfigError.of_all([f"`{path}` is there; replace it with --force, or name another DIR" for path in there])


def _create_database(path: Path) -> None:
    import asyncio

    from agent_gate.ledger.sqlite import SqliteLedger
    from agent_gate.system import RandomIds, SystemClock

    asyncio.run(SqliteLedger(path, SystemClock(), RandomIds()).close())


def _write(path: Path, content: bytes) -> str:
    """Whole or not at all; a link is replaced, not followed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"`{path}` cannot be written: {error.strerror}", suggestion="check permissions") from None
    return str(path)


def _add_to_gitignore(path: Path, db: Path) -> bool:
    """Add what is missing; whether anything was."""
    wanted = IGNORED if db.suffix == ".db" else (db.name, f"{db.name}-*", f"{db.name}.anchor*", f"{db.name}.d/")
    try:
        present = path.read_text(errors="surrogateescape") if path.exists() else ""
        missing = [line for line in wanted if line not in present.splitlines()]
        if missing:
            gap = "" if not present or present.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(gap + "\n".join(missing) + "\n")
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be written: {error.strerror}", suggestion="check permissions") from None
    return bool(missing)


def _say_what_next(directory: Path, db: Path, is_new: bool, added: bool) -> None:
    policy, plan = (directory / name for name in FILES)
    screen.print_fields(
        [
            (str(policy), "what agents may do"),
            (str(plan), "a plan to try"),
            (str(db), "the ledger, readable by you alone" if is_new else "the ledger was there and stays"),
            (str(directory / ".gitignore"), "keeps the ledger out of git" if added else ""),
        ],
        indent=0,
    )
    screen.say()
    screen.say(screen.paint("Next", "bold"))
    call = '--tool state.set --args \'{"path": "/notes/today", "value": "rain"}\''
    screen.say(f"  agent-gate check {call} -p {policy}")
    screen.say(f"  agent-gate doctor --db {db}")
    screen.say("  agent-gate demo")
