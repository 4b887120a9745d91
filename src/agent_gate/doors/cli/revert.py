"""`agent-gate revert`: undo what one call did."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.calling import call_here
from agent_gate.doors.cli.check import DEFAULT_POLICY
from agent_gate.doors.cli.ledgers import existing_database
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, PolicyPath, Project, ServicesOf, commands, examples
from agent_gate.doors.cli.outcomes import print_outcome
from agent_gate.doors.codes import exit_of_outcome

app = commands()


@app.command(epilog=examples("agent-gate revert 01JCZ4… -p policy.yaml", "agent-gate revert 01JCZ4… -c config.yaml"))
def revert(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The whole id of the call; see `agent-gate audit`.")],
    policy: PolicyPath = DEFAULT_POLICY,
    config: ServicesOf = None,
    project: Project = "default",
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Undo what one call did: a call like any other, judged by the policy and recorded."""
    outcome = call_here(policy, existing_database(db), "gate.revert", {"call_id": call}, project, config)
    if as_json:
        screen.print_json(outcome.to_json())
    else:
        print_outcome(outcome)
    return exit_of_outcome(outcome)
