"""`agent-gate pending`: the calls that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.wire import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

app = commands()


@app.command(epilog=examples("agent-gate pending", "agent-gate pending --url https://gate.example:8443 --json"))
def pending(
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """List the calls that wait for a person, the oldest first."""
    with approvers_door(url, token, config, ca) as remote:
        answer = remote.get("pending")
    if as_json:
        screen.print_json(answer)
        return Exit.SUCCESS
    columns = ("until", "agent", "call", "agreed", "id")
    rows = [_row(question) for question in answer["pending"]]
    screen.print_table(columns, rows, empty="nothing waits for a person", whole=("until", "id"))
    return Exit.SUCCESS


def _row(question: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{question['expires_at'][:10]} {question['expires_at'][11:19]}",
        question["agent_id"],
        "  ".join(map(screen.shortened, question["signatures"])),
        f"{len(question['approved_by'])} of {question['approvers_required']}",
        question["call_id"],
    )
