"""`agent-gate db`: care for the ledger's file, and the two ways to erase."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import existing_database, writing
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Yes, commands, examples
from agent_gate.doors.cli.person import must_mean_it, person_name
from agent_gate.doors.codes import Exit
from agent_gate.history.archive import open_archive
from agent_gate.history.erase import Erased, erase_call
from agent_gate.history.erase import retain as keep
from agent_gate.model.visible import visible

app = commands("Care for the ledger's file, and the two ways to erase.")


@app.command(epilog=examples("agent-gate db upgrade --db agent-gate.db"))
def upgrade(db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Bring the ledger to the schema of this release."""
    archive = open_archive(existing_database(db))
    with screen.working("upgrading"):
        was_needed = archive.upgrade()
    if as_json:
        screen.print_json({"upgraded": was_needed, "schema": archive.schema})
    else:
        screen.say(f"{db} {'now has' if was_needed else 'already has'} schema {archive.schema}")
    return Exit.SUCCESS


@app.command(epilog=examples("agent-gate db backup /mnt/backup/agent-gate.db"))
def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new file; its anchor and keys go beside it.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Copy the ledger, its anchor and its keys while others write.

    The copy verifies on its own.
    """
    archive = open_archive(existing_database(db))
    with screen.working("copying the ledger"):
        made = archive.backup(target)
    if as_json:
        screen.print_json(made.to_json())
    else:
        entries = screen.count(made.entries, "entry", "entries")
        screen.say(f"{entries}, {made.size_bytes / 1_048_576:.1f} MB in {visible(made.path)}")
        screen.say(screen.paint("It holds the ledger's keys: guard it like the ledger.", "dim"))
    return Exit.SUCCESS


@app.command(epilog=examples("agent-gate db erase 01JCZ4…", "agent-gate db erase 01JCZ4… --yes --json"))
def erase(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The id of a call; see `agent-gate audit`.")],
    yes: Yes = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Erase arguments, signatures and result of one call.

    Who, when and how it ended stay, and the chain verifies.
    """
    existing_database(db)
    must_mean_it(f"erasing call `{call}`", yes=yes, command="agent-gate db erase")
    return _say(
        writing(db, lambda ledger, clock, ids: erase_call(ledger, call, by=person_name(), clock=clock, ids=ids)),
        as_json,
    )


@app.command(epilog=examples("agent-gate db retain --days 90", "agent-gate db retain --days 90 --yes"))
def retain(
    days: Annotated[float, typer.Option("--days", min=0, metavar="N", help="Erase calls that ended longer ago.")],
    yes: Yes = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Erase every call that ended more than so many days ago.

    Of each call the same is erased as by `db erase`; old states of a home are erased too.
    """
    existing_database(db)
    must_mean_it(f"erasing all calls older than {days:g} days", yes=yes, command="agent-gate db retain")
    with screen.working("erasing"):
        erased = writing(db, lambda ledger, clock, ids: keep(ledger, days, by=person_name(), clock=clock, ids=ids))
    return _say(erased, as_json)


def _say(erased: Erased, as_json: bool) -> int:
    if as_json:
        screen.print_json(erased.to_json())
        return Exit.SUCCESS
    screen.say(
        f"{screen.count(erased.calls, 'call')} erased, {screen.count(erased.entries, 'entry', 'entries')} in all"
    )
    if erased.entities:
        screen.say(f"{screen.count(erased.entities, 'entity', 'entities')} of the home forgotten")
    if erased.snapshots_kept:
        kept = screen.count(erased.snapshots_kept, "state that they made stays", "states that they made stay")
        screen.say(screen.paint(f"{kept}, because later ones stand on that", "dim"))
    return Exit.SUCCESS
