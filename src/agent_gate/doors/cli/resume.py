"""`agent-gate resume`: let calls pass again after `pause`."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate resume"))
def resume(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Written down.")] = "",
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """Let calls pass again after `agent-gate pause`; needs an approver's token."""
    with approvers_door(url, token, config, ca) as remote:
        answer = remote.post("resume", body={"reason": reason} if reason else {})
    if as_json:
        screen.print_json(answer)
    else:
        screen.say("resumed: calls are judged again" if answer["changed"] else "it was not paused")
    return Exit.SUCCESS
