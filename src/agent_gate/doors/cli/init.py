"""`agent-gate init`: the files that a new user needs, ready to be changed."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import database_path
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.history.archive import open_archive
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import LEDGER_VARIABLE
from agent_gate.model.moment import iso
from agent_gate.resolve.ownership import Start, note_own
from agent_gate.system.clock import RandomIds, SystemClock

STARTER = Path(__file__).parent / "starter"
CONFIG = "config.yaml"
FILES = ("policy.yaml", "plan.yaml", CONFIG)
IGNORED = ("*.db", "*.db-*", "*.db.anchor*", "*.db.d/")
"""A database, its companions and its keys have no place in a repository."""
TOKEN_BYTES = 32

app = commands()


@app.command(epilog=examples("agent-gate init", "agent-gate init my-project --force"))
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="PATH", envvar=LEDGER_VARIABLE, help="The ledger; DIR/agent-gate.db if not named."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a policy, a plan and a configuration to begin with, and create the database.

    The policy denies what it does not allow, and says in comments how to change that. The configuration has an agent
    and an approver with fresh tokens, and is readable by you alone. Nothing that exists is replaced without --force; a
    database never is. Where somebody deleted the database and its anchor is left, --force begins a new one, keeps what
    is left of the old one in its directory of keys, and leaves the other files as they are.
    """
    path = database_path(db) if db is not None else directory / DEFAULT_DB
    if force and _begin_anew(path, as_json):
        return Exit.SUCCESS
    _prepare(directory, force)
    is_new = not path.exists()
    _create_database(path)
    written = [_write(directory / name, (STARTER / name).read_bytes()) for name in FILES if name != CONFIG]
    written.append(_write(directory / CONFIG, _config(directory, path), mode=0o600))
    added = _add_to_gitignore(directory / ".gitignore", path)
    _note(directory, path)
    if as_json:
        created = [*written, *([str(directory / ".gitignore")] if added else []), *([str(path)] if is_new else [])]
        screen.print_json({"created": created, "database": str(path)})
    else:
        _say_what_next(directory, path, is_new, added)
    return Exit.SUCCESS


def _begin_anew(db: Path, as_json: bool) -> bool:
    """Only where a ledger was deleted: then nothing else is to be lost as well."""
    archive = open_archive(db)
    if not archive.was_deleted():
        return False
    try:
        kept = [str(path) for path in archive.set_aside(iso(SystemClock().now()))]
    except OSError as error:
        raise ConfigError(
            f"what is left of `{db}` cannot be kept: {error.strerror}", suggestion="check permissions"
        ) from None
    _create_database(db)
    if as_json:
        screen.print_json({"created": [str(db)], "database": str(db), "kept": kept})
        return True
    left = [(path, "left of the one that was deleted") for path in kept]
    screen.print_fields([(str(db), "a new ledger"), *left], indent=0)
    screen.say()
    screen.say("Start anew whatever still runs: it refuses every call. No other file was replaced.")
    return True


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
    asyncio.run(open_archive(path).open(SystemClock(), RandomIds()).close())


def _note(directory: Path, db: Path) -> None:
    """Gates of this user that run already keep their agents away from what was just made."""
    policy, plan, config = (directory / name for name in FILES)
    note_own(Start.of(str(directory), [db], [config], [policy, plan]))


def _config(directory: Path, db: Path) -> bytes:
    """The starter's, with tokens that nobody else has and the ledger's place as `serve` finds it from there."""
    try:
        place = db.absolute().relative_to(directory.absolute())
    except ValueError:
        place = db.absolute()
    text = (STARTER / CONFIG).read_text(encoding="utf-8")
    for name in ("AGENT_TOKEN", "APPROVER_TOKEN"):
        text = text.replace(f"<{name}>", secrets.token_urlsafe(TOKEN_BYTES))
    return text.replace("<DATABASE>", json.dumps(str(place), ensure_ascii=False)).encode("utf-8", "surrogateescape")


def _write(path: Path, content: bytes, mode: int = 0o666) -> str:
    """Whole or not at all; a link is replaced, not followed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"`{path}` cannot be written: {error.strerror}", suggestion="check permissions") from None
    return str(path)


def _add_to_gitignore(path: Path, db: Path) -> bool:
    """Add what is missing; whether anything was."""
    own = IGNORED if db.suffix == ".db" else (db.name, f"{db.name}-*", f"{db.name}.anchor*", f"{db.name}.d/")
    wanted = (*own, CONFIG)
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
    policy, plan, config = (directory / name for name in FILES)
    screen.print_fields(
        [
            (str(policy), "what agents may do"),
            (str(plan), "a plan to try"),
            (str(config), "who may call and who may approve, with their tokens; readable by you alone"),
            (str(db), "the ledger, readable by you alone" if is_new else "the ledger was there and stays"),
            (str(directory / ".gitignore"), "keeps ledger and tokens out of git" if added else ""),
        ],
        indent=0,
    )
    screen.say()
    screen.say(screen.paint("Next", "bold"))
    call = '--tool state.set --args \'{"path": "/notes/today", "value": "rain"}\''
    screen.say(f"  agent-gate check {call} -p {policy}")
    screen.say(f"  agent-gate run {plan} -p {policy} --db {db}")
    there = "" if directory == Path() else f"cd {directory} && "
    screen.say(
        f"  {there}agent-gate serve, and beside it: agent-gate request state.set path=/settings/theme value=dark"
    )
    screen.say(f"  agent-gate doctor --db {db}")
    screen.say("  agent-gate demo")
