"""`agent-gate doctor`: whether this machine and this ledger are fit for work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledger_path import database_path
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate doctor", "agent-gate doctor --db /var/lib/gate/agent-gate.db --json"))
def doctor(
    db: Db = DEFAULT_DB,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="What to serve by; else config.yaml, if any.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("-p", "--policy", metavar="FILE", help="Whose programs to look for; else policy.yaml, if any."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Look at this machine, the configuration and the ledger, and say what to do.

    The home of the configuration and the programs of the policy are looked at too.
    The exit code is 3 where something fails.
    """
    from agent_gate.doors.cli.health import FAIL
    from agent_gate.doors.cli.health_config import config_rows
    from agent_gate.doors.cli.health_home import home_rows
    from agent_gate.doors.cli.health_programs import program_rows
    from agent_gate.doors.cli.health_system import system_rows
    from agent_gate.history.archive import open_archive

    archive = open_archive(database_path(db))
    with screen.working("looking around"):
        rows = [
            *system_rows(archive.path.parent, archive.engine()),
            *config_rows(config),
            *home_rows(config),
            *program_rows(policy),
            *archive.diagnose(),
        ]
    is_fit = all(row.status != FAIL for row in rows)
    if as_json:
        screen.print_json({"ok": is_fit, "checks": [row.to_json() for row in rows]})
    else:
        screen.print_table(("", "what", "found"), [(row.status, row.name, row.found) for row in rows])
        advice = [(row.name, row.advice) for row in rows if row.advice]
        if advice:
            screen.say()
            screen.print_table(("what", "what to do"), advice)
    return Exit.SUCCESS if is_fit else Exit.ERROR
