"""An outcome as people read it: how a call ended, with what result, and what would change it."""

from __future__ import annotations

from agent_gate.doors.cli.screen import (
    change_lines,
    count,
    encoded,
    paint,
    print_fields,
    say,
    signatures,
)
from agent_gate.model.bounds import SHOWN_CHARS_MAX
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.visible import more, visible, visible_lines

RESULT_LINES_MAX = 100


def why(problem: Problem) -> str:
    """Tell what happened, with its code; a diff that belongs to it follows on lines of its own."""
    said, *difference = visible_lines(problem.detail)[0]
    return "\n".join((f"{said} ({problem.code} {problem.name})", *difference))


def print_outcome(outcome: Outcome) -> None:
    """Say how a call ended."""
    signature = signatures(outcome.signatures)
    say(f"{paint(outcome.status.value)}  {paint(signature, 'bold')}".rstrip())
    print_fields(
        [
            ("message", visible(outcome.message)),
            ("result", _result(outcome.data) if outcome.data is not None else ""),
            (_files_are(outcome), "\n".join(change_lines(outcome.files or ()))),
            ("why", why(outcome.error) if outcome.error else ""),
            ("to change it", visible(outcome.error.suggestion) if outcome.error else ""),
            ("state", f"version {outcome.state_version}" if outcome.state_version is not None else ""),
            ("snapshot", outcome.snapshot_id),
            ("call", outcome.call_id),
        ]
    )


def _files_are(outcome: Outcome) -> str:
    """Name the files of a command: those that it changed, or those that it may not change."""
    return "not written" if outcome.status in (Status.DENIED, Status.ERROR, Status.EXPIRED) else "files"


def _result(data: Json) -> str:
    """On one line where it fits there, else as many lines as a screen or two have, none of them endless."""
    line = encoded(data)
    if len(line) <= SHOWN_CHARS_MAX:
        return visible(line)
    lines = encoded(data, indent=True).split("\n")
    drawn = [visible_lines(line, SHOWN_CHARS_MAX) for line in lines[:RESULT_LINES_MAX]]
    shown = [f"{first}{more(left_out) if left_out else ''}" for (first, *_), left_out in drawn]
    if len(lines) > len(shown) or any(left_out for _, left_out in drawn):
        shown.append(f"… {count(len(lines), 'line')} in all; --json prints them whole")
    return "\n".join(shown)
