"""`agent-gate deny`: a person's no to one call."""

from __future__ import annotations

from agent_gate.doors.cli.answering import CallId, Nonce, Note, answer
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url

app = commands()


@app.command(epilog=examples("agent-gate deny 01JCZ4…", 'agent-gate deny 01JCZ4… --note "not at night"'))
def deny(
    call: CallId,
    note: Note = "",
    nonce: Nonce = None,
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """Say no to a call that waits; needs an approver's token."""
    fields = {"note": note, "nonce": nonce}
    return answer("deny", call, fields, url=url, token=token, config=config, ca=ca, as_json=as_json)
