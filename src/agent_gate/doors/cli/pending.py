"""`agent-gate pending`: the calls that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, approvers_door
from agent_gate.doors.wire import Exit
from agent_gate.model.approval import WRITTEN
from agent_gate.model.errors import IdentityError
from agent_gate.model.limits import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_gate.model.tool import Json

app = commands()


@app.command(epilog=examples("agent-gate pending", "agent-gate pending 01JCZ4…", "agent-gate pending --json"))
def pending(
    call: Annotated[str | None, typer.Argument(metavar="ID", help="Show this one whole.")] = None,
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """List the calls that wait for a person, the oldest first, or show one of them whole."""
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
        _show(questions[0])
    else:
        columns = ("until", "agent", "call", "agreed", "id")
        rows = [_row(question) for question in questions]
        screen.print_table(columns, rows, empty="nothing waits for a person", whole=("until", "id"))
    return Exit.SUCCESS


def _row(question: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _moment(question["expires_at"]),
        question["agent_id"],
        "  ".join(map(screen.shortened, question["signatures"])),
        _agreed(question),
        question["call_id"],
    )


def _show(question: Mapping[str, Any]) -> None:
    """All of it: what cannot be seen cannot be agreed to. What the agent wrote stands behind a line of its own."""
    who, what, where = map(screen.safe, (question["agent_id"], question["tool"], question["project"]))
    screen.say(f"{who} wants to call {screen.paint(what, 'bold')} in project {where}")
    for signature in question["signatures"]:
        screen.say(f"  {screen.paint(screen.safe(signature), 'bold')}")
    names = {name: screen.safe(name) for name in question["args"]}
    width = max(map(len, (*names.values(), "answer")))
    for name, value in question["args"].items():
        if question.get("has_run") and name == WRITTEN:
            continue
        for number, line in enumerate(_lines(value)):
            screen.say(f"  {(names[name] if number == 0 else '').ljust(width)} │ {line}")
    if question.get("has_run"):
        screen.say(f"  {screen.HAS_RUN}")
        for line in screen.change_lines(question["args"][WRITTEN]):
            screen.say(f"  │ {line}")
    reasons = [f"{reason['layer']}: {reason.get('text') or reason.get('rule')}" for reason in question["reasons"]]
    for name, text in (
        *(("why", screen.safe(reason)) for reason in reasons),
        ("agreed", _agreed(question)),
        ("until", f"{_moment(question['expires_at'])} UTC"),
        ("answer", f"agent-gate approve {question['call_id']}, or deny"),
    ):
        screen.say(f"  {screen.paint(name.ljust(width), 'dim')}  {text}")


def _lines(value: Json) -> list[str]:
    text = value if isinstance(value, str) else screen.encoded(value)
    return screen.safe_lines(text).split("\n")


def _agreed(question: Mapping[str, Any]) -> str:
    return f"{len(question['approved_by'])} of {question['approvers_required']}"


def _moment(text: str) -> str:
    return f"{text[:10]} {text[11:19]}"
