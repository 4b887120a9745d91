"""`agent-gate pause`: deny every call at once, until `resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate pause", 'agent-gate pause --reason "looking into it"'))
def pause(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Written down.")] = "",
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """Deny every call at once until `agent-gate resume`; needs an approver's token."""
    with approvers_door(url, token, config, ca) as remote:
        answer = remote.post("pause", body={"reason": reason} if reason else {})
    if as_json:
        screen.print_json(answer)
    else:
        screen.say(
            "paused: every call is denied until `agent-gate resume`" if answer["changed"] else "it was paused already"
        )
    return Exit.SUCCESS
