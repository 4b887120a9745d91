"""Writes of a command, judged path by path as `fs.write` would be, before any of it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_gate.model.call import Facts
from agent_gate.model.change import FileChange
from agent_gate.model.errors import Problem
from agent_gate.model.verdict import Decision, Reason, Requirement, Verdict
from agent_gate.model.visible import visible
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.layers import WHERE_PEOPLE_ARE, Answer, Environment, ask, deny
from agent_gate.policy.rules import RuleIndex
from agent_gate.policy.signature import shown

LAYER = "changes"
_REASONS_MAX = 20
"""Of one verdict; a command may change thousands of files."""
_ALLOWED: Answer = Reason(LAYER, Decision.ALLOW), None


def write_signature(path: str) -> str:
    return f"fs.write({encoded_text('path', path)})"


class ChangeRules:
    """The rules and the path guard of one policy, for what commands write."""

    def __init__(self, files: PathRules | None, index: RuleIndex) -> None:
        self._files, self._index = files, index

    def decide(
        self,
        changes: Sequence[FileChange],
        environment: Callable[[str], Environment],
        facts: Facts,
        requirement: Requirement,
        *,
        asks_always: bool = False,
    ) -> Verdict:
        """The strictest answer that any path gets; `environment` gives what conditions of rules see of a path.

        `asks_always` stands for `writes: ask`.
        """
        answers = [self._judge(change, environment(change.path)) for change in changes]
        refused = [problem for _, problem in answers if problem is not None]
        if refused:
            trace = tuple(reason for reason, problem in answers if problem is not None)[:_REASONS_MAX]
            return Verdict(Decision.DENY, trace, _counted(refused, len(changes)))
        asking = tuple(reason for reason, _ in answers if reason.decision is Decision.ASK)[:_REASONS_MAX]
        if asks_always and not asking:
            asking = (Reason(LAYER, Decision.ASK, text=f"writes: ask ({_number(len(changes))})"),)
        if not asking:
            return Verdict(Decision.ALLOW, (Reason(LAYER, Decision.ALLOW),))
        instead = "write `writes: judge` under shell.run" if asks_always else "allow it by a rule"
        return _asked(asking, facts, requirement, instead)

    def _judge(self, change: FileChange, environment: Environment) -> Answer:
        if change.obstacle:
            return deny(LAYER, 1002, f"`{_shown(change.path)}` {change.obstacle}", "let the command make a plain file")
        if self._files is None:
            detail = f"`{_shown(change.path)}` would be written, and fs.write has no section under tools: in the policy"
            return deny(LAYER, 1002, detail, 'add `tools: {fs.write: {allow_paths: ["./out/**"]}}`')
        strictest = self._judge_path(change.path, self._files.judge_or_ask(change.path, change.found), environment)
        if change.leads_to and self._files.is_above_own(change.path):
            detail = f"`{_shown(change.path)}` would be a link on the way to a file of the gate's own"
            return deny(LAYER, 1021, detail, "leave it alone: no section of tools: opens it")
        if change.leads_to:
            guard = self._files.judge_or_ask(change.leads_to, {"type": "file"})
            strictest = _stricter(strictest, self._judge_path(change.leads_to, guard, environment))
        return strictest

    def _judge_path(self, path: str, guard: Answer, environment: Environment) -> Answer:
        """As for a call of `fs.write`: a rule that allows silences a guard that asks, and nothing else."""
        reason, problem = guard
        if problem is not None:
            return reason, problem
        match = self._index.lookup(write_signature(path), environment)
        rule = match.rule
        if (match.origin == "rule" or match.error) and rule is not None:
            if match.decision is Decision.DENY:
                why = f": {match.error}" if match.error else f" ({rule.description})" if rule.description else ""
                detail = f"`{shown(write_signature(path))}` is denied by the rule `{rule.pattern}`{why}"
                return deny(LAYER, 1001, detail, "narrow or remove it", rule.pattern)
            if match.decision is Decision.ASK:
                return ask(LAYER, rule.description or f"`{_shown(path)}`", rule.pattern)
            return _ALLOWED
        if reason.decision is Decision.ASK:
            return ask(LAYER, reason.text, reason.rule)
        return _ALLOWED


def _stricter(one: Answer, other: Answer) -> Answer:
    """A deny, else a question, else either."""
    if one[1] is not None:
        return one
    return other if other[1] is not None or one[0].decision is not Decision.ASK else one


def _counted(refused: Sequence[Problem], changes: int) -> Problem:
    first, more = refused[0], len(refused) - 1
    besides = f"; {_number(more)} more may not be changed either" if more else ""
    nothing = f"; of {_number(changes)} that the command changed, none was written"
    return replace(first, detail=f"{first.detail}{besides}{nothing}", stage="perform")


def _number(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _asked(asking: tuple[Reason, ...], facts: Facts, requirement: Requirement, instead: str) -> Verdict:
    """`instead` says what would let it pass without a person."""
    if facts.refused_recently:
        problem = Problem(
            1022,
            "a person said no to this a moment ago; nothing was written",
            "wait for the cooldown to end",
            "perform",
        )
    elif not facts.can_ask:
        first = asking[0].text or asking[0].rule
        problem = Problem(
            1001,
            f"a person would have to agree to what the command wrote, and nobody can be asked here ({first});"
            " nothing was written",
            f"{instead}, or {WHERE_PEOPLE_ARE}",
            "perform",
        )
    else:
        return Verdict(Decision.ASK, asking, requirement=requirement)
    return Verdict(Decision.DENY, (*asking, Reason(LAYER, Decision.DENY, text=problem.detail)), problem)


def _shown(path: str) -> str:
    return shown(visible(path))
