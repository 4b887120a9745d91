"""`agent-gate approve`: a person's yes to one call."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli.answering import CallId, Nonce, Note, answer
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url

app = commands()


@app.command(epilog=examples("agent-gate approve 01JCZ4…", "agent-gate approve 01JCZ4… --grant 3600 --uses 5"))
def approve(
    call: CallId,
    note: Note = "",
    nonce: Nonce = None,
    grant: Annotated[
        int | None,
        typer.Option("--grant", metavar="SECONDS", help="Let the same call pass again for so long, see `grants`."),
    ] = None,
    uses: Annotated[int, typer.Option("--uses", metavar="N", help="With --grant: at most so often.")] = 5,
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """Say yes to a call that waits; needs an approver's token."""
    terms = None if grant is None else {"seconds": grant, "uses": uses}
    fields = {"note": note, "nonce": nonce, "grant": terms}
    return answer("approve", call, fields, url=url, token=token, config=config, ca=ca, as_json=as_json)
