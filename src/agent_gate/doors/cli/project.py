"""`agent-gate project`: the units of isolation, each with its state, its chain and its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import reading, writing
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.cli.person import person_name
from agent_gate.doors.codes import Exit
from agent_gate.history.projects import Projects, list_projects
from agent_gate.model.bounds import STATE_BYTES_MAX
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

app = commands("Projects: each has its own state, chain, budget and lock.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The project.")]

_DONE = {"create": "open", "archive": "archived", "lock": "locked", "unlock": "open"}


@app.command("list", epilog=examples("agent-gate project list", "agent-gate project list --json"))
def list_(db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """List the projects of the ledger."""
    with reading(db) as reader:
        projects = list_projects(reader)
    if as_json:
        screen.print_json({"projects": [project.to_json() for project in projects]})
    else:
        columns = ("project", "status", "created", "entries", "state version")
        rows = [(p.name, p.status, p.created_at[:19].replace("T", " "), p.entries, p.state_version) for p in projects]
        screen.print_table(columns, rows, empty="no projects")
    return Exit.SUCCESS


@app.command(
    epilog=examples(
        "agent-gate project create home",
        "agent-gate project create home --initial-state '{\"lights\": {}}' --state-schema schema.json",
    )
)
def create(
    name: Name,
    initial_state: Annotated[
        str | None, typer.Option("--initial-state", metavar="JSON|FILE", help="The state it begins with, an object.")
    ] = None,
    state_schema: Annotated[
        str | None,
        typer.Option("--state-schema", metavar="JSON|FILE", help="The JSON Schema that every state must fit."),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Make a new project."""
    documents = _document("--initial-state", initial_state), _document("--state-schema", state_schema)
    return _change("create", name, db, as_json, *documents)


@app.command(epilog=examples("agent-gate project archive home"))
def archive(name: Name, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Close a project that is finished.

    Its record stays, and calls are refused.
    """
    return _change("archive", name, db, as_json)


@app.command(epilog=examples("agent-gate project lock home"))
def lock(name: Name, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Refuse calls to a project for the time being."""
    return _change("lock", name, db, as_json)


@app.command(epilog=examples("agent-gate project unlock home"))
def unlock(name: Name, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Open a locked or archived project again."""
    return _change("unlock", name, db, as_json)


def _change(action: str, name: str, db: str, as_json: bool, *documents: Json) -> int:
    writing(
        db, lambda ledger, clock, ids: getattr(Projects(ledger, clock, ids, person_name()), action)(name, *documents)
    )
    if as_json:
        screen.print_json({"project": name, "status": _DONE[action]})
    else:
        screen.say(f"{screen.paint(_DONE[action])}  project {visible(name)}")
    return Exit.SUCCESS


def _document(option: str, text: str | None) -> Json:
    """An option's JSON, given as it is or as the name of a file that holds it."""
    if text is None:
        return None
    try:
        raw = text if text.lstrip()[:1] in ("{", "[") else Path(text).read_bytes()
        return parse(raw, bytes_max=STATE_BYTES_MAX)
    except CodecError as error:
        reason: object = error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
    raise UsageMistake(f"{option} `{screen.shortened(text, 80)}`: {reason}", "agent-gate project create")
