"""`agent-gate grants`: what people agreed to beforehand, and taking it back."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate grants", "agent-gate grants --revoke 01JCZ4…"))
def grants(
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="GRANT", help="Take this one back, at once.")
    ] = None,
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """List the standing grants that are in force, or take one back; needs an approver's token."""
    with approvers_door(url, token, config, ca) as remote:
        answer = remote.get("grants") if revoke is None else remote.delete("grants", revoke)
    if as_json:
        screen.print_json(answer)
    elif revoke is not None:
        screen.say(f"taken back: {screen.signatures(answer['revoked']['signatures'])}")
    else:
        rows = [
            (
                f"{grant['expires_at'][:10]} {grant['expires_at'][11:19]}",
                grant["agent_id"],
                screen.signatures(grant["signatures"]),
                f"{grant['uses_left']} of {grant['uses']}",
                grant["given_by"],
                grant["grant_id"],
            )
            for grant in answer["grants"]
        ]
        columns = ("until", "agent", "call", "uses left", "given by", "grant")
        screen.print_table(columns, rows, empty="no grants", whole=("until", "grant"))
    return Exit.SUCCESS
