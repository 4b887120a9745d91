"""`agent-gate state`: a project's state, now and at every moment before."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.calling import call_here
from agent_gate.doors.cli.check import DEFAULT_POLICY
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import existing_database, reading
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, Limit, PolicyPath, Project, commands, examples
from agent_gate.doors.cli.outcomes import print_outcome
from agent_gate.doors.codes import Exit, exit_of_outcome
from agent_gate.history import state
from agent_gate.model.visible import visible, visible_lines

app = commands("A project's state, now and at every moment before.")


@app.command(epilog=examples("agent-gate state show", "agent-gate state show --project home --version 3 --json"))
def show(
    project: Project = "default",
    version: Annotated[
        int | None, typer.Option("--version", min=0, metavar="N", help="As it was at this version; 0 is the first.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="ID", help="As it was in this snapshot.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Show the state of a project."""
    if version is not None and snapshot is not None:
        raise UsageMistake("give either --version or --snapshot", "agent-gate state show")
    with reading(db) as reader:
        found = state.show(reader, project, version, snapshot)
    if as_json:
        screen.print_json(found.to_json())
        return Exit.SUCCESS
    made = f", made {found.at} by call {found.call_id}" if found.version else ", the initial state"
    screen.say(screen.paint(f"{project}, version {found.version}{made}", "dim"))
    screen.say("\n".join(visible_lines(screen.encoded(found.document, indent=True))[0]))
    return Exit.SUCCESS


@app.command(epilog=examples("agent-gate state history --project home --limit 20"))
def history(
    project: Project = "default",
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """List the versions of a state and who made each, newest first."""
    with reading(db) as reader:
        changes = state.history(reader, project, limit)
    if as_json:
        screen.print_json({"project": project, "versions": [change.to_json() for change in changes]})
    else:
        columns = ("version", "when", "agent", "tool", "changes", "snapshot", "made by")
        rows = [
            (c.version, f"{c.at[:10]} {c.at[11:19]}", c.agent_id, c.tool, c.operations, c.snapshot_id, c.call_id)
            for c in changes
        ]
        whole = ("when", "snapshot", "made by")
        screen.print_table(columns, rows, whole=whole)
    return Exit.SUCCESS


@app.command(epilog=examples("agent-gate state diff", "agent-gate state diff 3 5 --project home"))
def diff(
    before: Annotated[
        str | None, typer.Argument(metavar="FROM", help="A version or a snapshot; the one before the last if absent.")
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="TO", help="A version or a snapshot; the last if absent.")
    ] = None,
    project: Project = "default",
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Show what turns one state of a project into another.

    The difference is a JSON Patch (RFC 6902).
    """
    with reading(db) as reader, reader.one_moment():
        last = state.show(reader, project).version
        first_place, second_place = _place(before, max(0, last - 1)), _place(after, last)
        operations = state.diff(reader, project, first_place, second_place)
    if as_json:
        screen.print_json({"project": project, "from": first_place, "to": second_place, "diff": operations})
        return Exit.SUCCESS
    screen.say(screen.paint(f"{project}, from {first_place} to {second_place}", "dim"))
    for operation in operations:
        _print_operation(dict(operation))
    if not operations:
        screen.say("no difference")
    return Exit.SUCCESS


def _place(text: str | None, default: int) -> int | str:
    if text is None:
        return default
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else text


_SIGNS = {"add": ("+", "green"), "remove": ("-", "red"), "replace": ("~", "yellow")}


def _print_operation(operation: dict[str, object]) -> None:
    sign, colour = _SIGNS.get(str(operation["op"]), (str(operation["op"]), "yellow"))
    value = f"  {screen.shortened(screen.encoded(operation['value']))}" if "value" in operation else ""
    source = f"  from {visible(operation['from'])}" if "from" in operation else ""
    screen.say(f"{screen.paint(sign, colour)} {visible(operation['path']) or '(the whole state)'}{value}{source}")


@app.command(epilog=examples("agent-gate state revert 01JCZ4… -p policy.yaml", "agent-gate state revert initial"))
def revert(
    snapshot: Annotated[
        str, typer.Argument(metavar="SNAPSHOT", help="The snapshot, as in `agent-gate state history`, or `initial`.")
    ],
    policy: PolicyPath = DEFAULT_POLICY,
    project: Project = "default",
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Make an earlier snapshot the state again.

    This is a call like any other, judged by the policy and recorded.
    """
    path = existing_database(db)
    outcome = call_here(policy, path, "state.revert", {"snapshot_id": snapshot}, project)
    if as_json:
        screen.print_json(outcome.to_json())
    else:
        print_outcome(outcome)
    return exit_of_outcome(outcome)
