"""Commands of people who answer for the gate: `pending`, `approve`, `deny`, `grants`, `pause` and `resume`.

All of them talk to a running server, with an approver's token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.question import ROWS_MIN, Asked, ending, in_full, in_part, in_short
from agent_gate.doors.cli.remote import CONFIGURED, Server, at_server
from agent_gate.doors.codes import Exit
from agent_gate.model.bounds import PAGE_MAX
from agent_gate.model.errors import IdentityError
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

app = commands()

CallId = Annotated[str, typer.Argument(metavar="ID", help="The call; see `agent-gate pending`.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Written down with the answer.")]
Nonce = Annotated[
    str | None,
    typer.Option("--nonce", metavar="N", help="Answer only this showing of the question; see `pending --json`."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Written down.")]

_ANSWER_ROWS = 4
"""Lines below the question on a screen."""


@app.command(
    epilog=examples(
        "agent-gate pending",
        "agent-gate pending 01JCZ4…",
        "agent-gate pending 01JCZ4… --all",
        "agent-gate pending --json",
    )
)
@at_server
def pending(
    call: Annotated[str | None, typer.Argument(metavar="ID", help="Show this one.")] = None,
    server: Server = CONFIGURED,
    whole: Annotated[bool, typer.Option("--all", help="With ID: also the rest of values that are long.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the calls that wait for a person, the oldest first, or show one of them."""
    with server.connected(approver=True) as remote:
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
    """Show what the agent wrote in a frame; where that is longer than the screen, what it asks for stands last."""
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


@app.command(epilog=examples("agent-gate approve 01JCZ4…", "agent-gate approve 01JCZ4… --grant 3600 --uses 5"))
@at_server
def approve(
    call: CallId,
    note: Note = "",
    nonce: Nonce = None,
    grant: Annotated[
        int | None,
        typer.Option("--grant", metavar="SECONDS", help="Let the same call pass again for so long, see `grants`."),
    ] = None,
    uses: Annotated[int, typer.Option("--uses", metavar="N", help="With --grant: at most so often.")] = 5,
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """Say yes to a call that waits; needs an approver's token."""
    terms = None if grant is None else {"seconds": grant, "uses": uses}
    fields = {"note": note, "nonce": nonce, "grant": terms}
    return _answer("approve", call, fields, server, as_json)


@app.command(epilog=examples("agent-gate deny 01JCZ4…", 'agent-gate deny 01JCZ4… --note "not at night"'))
@at_server
def deny(
    call: CallId,
    note: Note = "",
    nonce: Nonce = None,
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """Say no to a call that waits; needs an approver's token."""
    fields = {"note": note, "nonce": nonce}
    return _answer("deny", call, fields, server, as_json)


def _answer(verb: str, call_id: str, fields: Mapping[str, Json], server: Server, as_json: bool) -> int:
    """Answer what is shown now: whoever puts the question anew in between is not answered."""
    body = {name: value for name, value in fields.items() if value}
    with server.connected(approver=True) as remote:
        shown = next((one for one in remote.get("pending")["pending"] if one["call_id"] == call_id), None)
        if shown and "nonce" not in body:
            body["nonce"] = shown["nonce"]
        told = remote.post("pending", call_id, verb, body=body)
    if as_json:
        screen.print_json(told)
    else:
        _say_answered(verb, shown or {}, told)
    return Exit.SUCCESS


def _say_answered(verb: str, shown: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    word = "approved" if verb == "approve" else "denied"
    signature = screen.signatures(shown.get("signatures", ()))
    screen.say(f"{screen.paint(word, 'green' if verb == 'approve' else 'red')}  {screen.paint(signature, 'bold')}")
    if "unattended" in told:
        screen.say(visible(told["unattended"]))
    if told["open"]:
        screen.say(
            screen.paint(f"somebody else must agree as well: {shown.get('approvers_required', 2)} in all", "dim")
        )


@app.command(epilog=examples("agent-gate grants", "agent-gate grants --revoke 01JCZ4…"))
@at_server
def grants(
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="GRANT", help="Take this one back, at once.")
    ] = None,
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """List the standing grants that are in force, or take one back; needs an approver's token."""
    with server.connected(approver=True) as remote:
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


@app.command(epilog=examples("agent-gate pause", 'agent-gate pause --reason "looking into it"'))
@at_server
def pause(
    reason: Reason = "",
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """Deny every call at once until `agent-gate resume`; needs an approver's token."""
    with server.connected(approver=True) as remote:
        answer = remote.post("pause", body={"reason": reason} if reason else {})
    if as_json:
        screen.print_json(answer)
    else:
        screen.say(
            "paused: every call is denied until `agent-gate resume`" if answer["changed"] else "it was paused already"
        )
    return Exit.SUCCESS


@app.command(epilog=examples("agent-gate resume"))
@at_server
def resume(
    reason: Reason = "",
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """Let calls pass again after `agent-gate pause`; needs an approver's token."""
    with server.connected(approver=True) as remote:
        answer = remote.post("resume", body={"reason": reason} if reason else {})
    if as_json:
        screen.print_json(answer)
    else:
        screen.say("resumed: calls are judged again" if answer["changed"] else "it was not paused")
    return Exit.SUCCESS
