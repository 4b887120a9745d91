"""Verdicts as people read them: the answer, what it is about, who spoke, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_gate.doors.cli.judging import Wish
from agent_gate.doors.cli.screen import (
    change_lines,
    count,
    encoded,
    paint,
    print_fields,
    say,
    shortened,
    signatures,
)
from agent_gate.model.errors import Problem
from agent_gate.model.limits import SHOWN_CHARS_MAX
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.model.visible import more, visible, visible_lines
from agent_gate.tools.check import Checked, Met

SIGNATURES_SHOWN_MAX = 20
RULES_SHOWN_MAX = 5
RESULT_LINES_MAX = 100
_WRITES = {
    "judge": "each file that it changes is judged when it has run",
    "ask": "a person is asked about the files that it changes when it has run",
    "direct": "to the disk itself: nobody judges what it changes",
}
"""What becomes of what a command writes; one that can write nothing needs no words."""


def print_verdict(checked: Checked, tool: str, *, every_layer: bool) -> None:
    outcome = checked.outcome
    decision = outcome.decision or Decision.DENY
    first, *others = [*map(shortened, outcome.signatures), *([] if outcome.signatures else [shortened(tool)])]
    say(f"{paint(decision.value)}  {paint(first, 'bold')}")
    for signature in others[:SIGNATURES_SHOWN_MAX]:
        say(f"{' ' * len(decision.value)}  {paint(signature, 'bold')}")
    if len(others) > SIGNATURES_SHOWN_MAX:
        say(f"{' ' * len(decision.value)}  and {len(others) - SIGNATURES_SHOWN_MAX} more")
    print_fields([*_fields(outcome), ("writes", _WRITES.get(checked.writes, "") if not outcome.error else "")])
    if checked.verdict:
        _print_met(checked.met)
        _print_layers(checked.verdict.trace, every_layer)


def _fields(outcome: Outcome) -> Iterator[tuple[str, str]]:
    rule = next((reason.rule for reason in outcome.reasons if reason.rule), "")
    if rule:
        yield "rule", visible(rule)
    if outcome.error:
        yield "why", why(outcome.error)
        yield "to change it", visible(outcome.error.suggestion)
    else:
        yield "why", visible("; ".join(reason.text for reason in outcome.reasons if reason.text))


def why(problem: Problem) -> str:
    """What happened and its code; a diff that belongs to it follows on lines of its own."""
    said, *difference = visible_lines(problem.detail)[0]
    return "\n".join((f"{said} ({problem.code} {problem.name})", *difference))


def _print_met(met: Sequence[Met]) -> None:
    """The names under which rules see the call, where it has more than its own, and what they meet."""
    if not any(one.is_alias for one in met):
        return
    say(f"  {paint('also known as', 'dim')}")
    for one in [one for one in met if one.is_alias][:SIGNATURES_SHOWN_MAX]:
        rules = ", ".join(f"{rule.action} {shortened(rule.pattern)}" for rule in one.rules[:RULES_SHOWN_MAX])
        more = f" and {len(one.rules) - RULES_SHOWN_MAX} more" if len(one.rules) > RULES_SHOWN_MAX else ""
        say(f"    {shortened(one.name)}" + (f"  meets {rules}{more}" if rules else ""))


def _print_layers(trace: Sequence[Reason], every_layer: bool) -> None:
    speaking = [reason for reason in trace if reason.decision or every_layer]
    silent = [reason.layer for reason in trace if not reason.decision]
    width = max((len(reason.layer) for reason in speaking), default=0)
    say(f"  {paint('layers', 'dim')}")
    for reason in speaking:
        answer = (reason.decision.value if reason.decision else "–").ljust(5)
        said = visible(reason.text or reason.rule)
        say(f"    {reason.layer.ljust(width)}  {paint(answer)}  {said}".rstrip())
    if silent and not every_layer:
        say(paint(f"    nothing to say: {', '.join(silent)}", "dim"))


def print_line(checked: Checked, number: int, wish: Wish) -> None:
    """One call of many on one line."""
    outcome = checked.outcome
    decision = (outcome.decision or Decision.DENY).value
    signature = signatures(outcome.signatures) or shortened(wish.tool) or "–"
    name = shortened(wish.id) or str(number)
    why = f"  {paint(visible(outcome.error), 'dim')}" if outcome.error else ""
    say(f"{name.rjust(4)}  {paint(decision.ljust(5))}  {signature}{why}")


def print_outcome(outcome: Outcome) -> None:
    """How a call ended."""
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
    """What a command changed, or what it may not change."""
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
