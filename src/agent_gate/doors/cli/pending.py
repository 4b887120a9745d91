"""`agent-gate pending`: the calls that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.asked import Asked, in_full, in_part, in_short
from agent_gate.doors.cli.frame import ROWS_MIN, ending
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.codes import Exit
from agent_gate.model.errors import IdentityError
from agent_gate.model.limits import PAGE_MAX
from agent_gate.model.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

app = commands()

_ANSWER_ROWS = 4
"""What stands below the question on a screen."""


@app.command(
    epilog=examples(
        "agent-gate pending",
        "agent-gate pending 01JCZ4…",
        "agent-gate pending 01JCZ4… --all",
        "agent-gate pending --json",
    )
)
def pending(
    call: Annotated[str | None, typer.Argument(metavar="ID", help="Show this one.")] = None,
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    whole: Annotated[bool, typer.Option("--all", help="With ID: also the rest of values that are long.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the calls that wait for a person, the oldest first, or show one of them."""
    with approvers_door(url, token, config, ca) as remote:
        answer = remote.get("pending", limit=PAGE_MAX)
    questions = [question for question in answer["pending"] if call in (None, question["call_id"])]
    if call is not None and not questions:
        raise IdentityError(
            f"no question about call `{call}` is open", code=6003, suggestion="see `agent-gate pending`"
        )
    if as_json:
        screen.print_json({**answer, "pending": questions})
    elif call is not None:
        _show(questions[0], whole=whole)
    else:
        columns = ("until", "agent", "call", "agreed", "id")
        rows = [_row(question) for question in questions]
        screen.print_table(columns, rows, empty="nothing waits for a person", whole=("until", "id"))
    return Exit.SUCCESS


def _row(question: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _moment(question["expires_at"]),
        question["agent_id"],
        screen.signatures(question["signatures"]),
        _agreed(question),
        question["call_id"],
    )


def _show(question: Mapping[str, Any], *, whole: bool) -> None:
    """What the agent wrote stands in a frame; where that is longer than the screen, what it asks for stands last."""
    columns, asked, call_id = screen.columns(), Asked.from_json(question), question["call_id"]
    rest = f"agent-gate pending {call_id} --all"
    lines = in_full(asked, columns) if whole else in_part(asked, columns, rest)
    if columns and len(lines) > screen.rows() - _ANSWER_ROWS:
        lines += in_short(asked, columns, max(ROWS_MIN, screen.rows()) - _ANSWER_ROWS)
    lines += ending(f"agreed: {_agreed(question)} · until {_moment(question['expires_at'])} UTC", columns)
    for line in (*lines, f"   agent-gate approve {call_id}, or deny"):
        screen.say(line)
    if "unattended" in question:
        screen.print_fields([("!", visible(question["unattended"]))], indent=3)


def _agreed(question: Mapping[str, Any]) -> str:
    return f"{len(question['approved_by'])} of {question['approvers_required']}"


def _moment(text: str) -> str:
    return f"{text[:10]} {text[11:19]}"
