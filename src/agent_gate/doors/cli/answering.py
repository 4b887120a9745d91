"""A person's yes or no to a question at a running server, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.remote import approvers_door
from agent_gate.doors.codes import Exit
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

CallId = Annotated[str, typer.Argument(metavar="ID", help="The call; see `agent-gate pending`.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Written down with the answer.")]
Nonce = Annotated[
    str | None,
    typer.Option("--nonce", metavar="N", help="Answer only this showing of the question; see `pending --json`."),
]


def answer(
    verb: str,
    call_id: str,
    fields: Mapping[str, Json],
    *,
    url: str | None,
    token: str | None,
    config: Path,
    ca: Path | None,
    as_json: bool,
) -> int:
    """Answer what is shown now: whoever puts the question anew in between is not answered."""
    body = {name: value for name, value in fields.items() if value}
    with approvers_door(url, token, config, ca) as remote:
        shown = next((one for one in remote.get("pending")["pending"] if one["call_id"] == call_id), None)
        if shown and "nonce" not in body:
            body["nonce"] = shown["nonce"]
        told = remote.post("pending", call_id, verb, body=body)
    if as_json:
        screen.print_json(told)
    else:
        _say(verb, shown or {}, told)
    return Exit.SUCCESS


def _say(verb: str, shown: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    word = "approved" if verb == "approve" else "denied"
    signature = screen.signatures(shown.get("signatures", ()))
    screen.say(f"{screen.paint(word, 'green' if verb == 'approve' else 'red')}  {screen.paint(signature, 'bold')}")
    if "unattended" in told:
        screen.say(visible(told["unattended"]))
    if told["open"]:
        screen.say(
            screen.paint(f"somebody else must agree as well: {shown.get('approvers_required', 2)} in all", "dim")
        )
