"""The work of `agent-gate check`, and its answers as people read them; options and help are in `fast_commands`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from agent_gate.doors.cli import judging, screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.outcomes import why
from agent_gate.doors.cli.screen import paint, print_fields, say, shortened, signatures
from agent_gate.doors.codes import Exit, exit_of_decision
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision, Reason
from agent_gate.model.visible import visible
from agent_gate.tools.check import Checked, Met

DEFAULT_POLICY = Path("policy.yaml")
SIGNATURES_SHOWN_MAX = 20
RULES_SHOWN_MAX = 5
_WRITES = {
    "judge": "each file that it changes is judged when it has run",
    "ask": "a person is asked about the files that it changes when it has run",
    "direct": "to the disk itself: nobody judges what it changes",
}
"""Fate of what a command writes; one that can write nothing needs no words."""


def run_check(
    *,
    tool: str | None = None,
    args: str | None = None,
    calls: Path | None = None,
    policy: Path = DEFAULT_POLICY,
    working_dir: Path | None = None,
    resolve: bool = False,
    roles: tuple[str, ...] = (),
    mode: Mode = Mode.ASSISTED,
    confirmed: bool = False,
    agent: str = "local",
    project: str = "default",
    explain: bool = False,
    as_json: bool = False,
) -> int:
    if (tool is None) == (calls is None):
        raise UsageMistake("give either --tool or --calls", "agent-gate check")
    if calls is not None and args is not None:
        raise UsageMistake("--args belongs to --tool; a line of --calls has its own", "agent-gate check")
    if working_dir is not None and not working_dir.is_dir():
        raise UsageMistake(f"--working-dir `{working_dir}` is not a directory", "agent-gate check")
    wish = judging.Wish(
        tool or "",
        working_dir=str(working_dir or ""),
        resolve=resolve,
        roles=roles or ("operator",),
        mode=mode,
        confirmed=confirmed,
        agent=agent,
        project=project,
    )
    judges = judging.Judges(policy, tell=screen.warn)
    if calls is not None:
        return _check_many(judges, wish, calls, as_json)
    return _check_one(judges, wish, "{}" if args is None else args, as_json, explain)


def _check_one(judges: judging.Judges, wish: judging.Wish, args: str, as_json: bool, explain: bool) -> int:
    if not as_json:
        judges.judge(None, wish.working_dir)  # the mistakes of a policy are told to people one by one
    try:
        checked = judging.answer(judges, replace(wish, args=judging.arguments_of(args)))
    except GateError as error:
        checked = judging.refused(error.problem)
    if as_json:
        screen.print_json(judging.to_json(checked, wish))
    else:
        _print_verdict(checked, wish.tool, every_layer=explain)
    return _exit(checked)


def _exit(checked: Checked) -> Exit:
    problem = checked.outcome.error
    if problem is not None and problem.code == ConfigError.default_code:
        return Exit.ERROR
    return exit_of_decision(checked.outcome.decision or Decision.DENY)


def _check_many(judges: judging.Judges, defaults: judging.Wish, calls: Path, as_json: bool) -> int:
    counts = dict.fromkeys(Decision, 0)
    try:
        source = nullcontext(sys.stdin.buffer) if str(calls) == "-" else calls.open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageMistake(f"--calls `{calls}` cannot be read: {reason}", "agent-gate check") from None
    with source as file:
        for number, line in judging.lines_of(file):
            wish, checked = _check_line(judges, line, defaults)
            counts[checked.outcome.decision or Decision.DENY] += 1
            if as_json:
                screen.print_json_line(judging.to_json(checked, wish, number))
            else:
                _print_line(checked, number, wish)
    if not as_json:
        screen.say(", ".join(f"{count} {decision.value}" for decision, count in counts.items() if count) or "no calls")
    return exit_of_decision(next((d for d in (Decision.DENY, Decision.ASK) if counts[d]), Decision.ALLOW))


def _check_line(judges: judging.Judges, line: bytes, defaults: judging.Wish) -> tuple[judging.Wish, Checked]:
    wish = defaults
    try:
        wish = judging.wish_of(line, defaults)
        return wish, judging.answer(judges, wish)
    except GateError as error:
        return wish, judging.refused(error.problem)


def _print_verdict(checked: Checked, tool: str, *, every_layer: bool) -> None:
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


def _print_line(checked: Checked, number: int, wish: judging.Wish) -> None:
    """One call of many on one line."""
    outcome = checked.outcome
    decision = (outcome.decision or Decision.DENY).value
    signature = signatures(outcome.signatures) or shortened(wish.tool) or "–"
    name = shortened(wish.id) or str(number)
    why = f"  {paint(visible(outcome.error), 'dim')}" if outcome.error else ""
    say(f"{name.rjust(4)}  {paint(decision.ljust(5))}  {signature}{why}")
