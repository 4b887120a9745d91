"""The permission rules, compiled once into an index that is searched in the order in which rules speak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_gate.model.errors import ConfigError
from agent_gate.model.permission import PermissionRule
from agent_gate.model.verdict import Decision
from agent_gate.policy.expression import Expression, ExpressionError, compile_expression
from agent_gate.policy.literals import LITERAL_CHARS_MIN, LiteralIndex
from agent_gate.policy.patterns import Matcher, characters, is_glob, literals, matcher

_GLOBS_FEW = 8
"""So many globs are tried one by one: that is as fast as an index, and starts sooner."""

_MATCHERS_MAX = 50_000
"""Matchers kept at a time; they are made when first needed."""

_ENDLESS = 1 << 62
_NOTHING: list[int] = []


class Match(NamedTuple):
    """What the rules say of one signature; `decision` is None where no rule and no default speaks."""

    decision: Decision | None
    rule: PermissionRule | None = None
    origin: str = ""
    """`rule`, `default`, or empty."""
    error: str = ""
    """Why the condition of `rule` could not be evaluated; the decision is then a deny."""


_SILENCE = Match(None)
_DECISIONS = {decision.value: decision for decision in Decision}


class RuleIndex:
    """Every rule has a rank: the deny rules in file order, then allow, then ask, then the defaults.

    The matching rule of lowest rank speaks. A rule with a condition is passed over where its condition is
    false; where it cannot be evaluated, the search ends there with a deny. So the conditions of rules that
    rank behind the one that speaks are never evaluated.
    """

    def __init__(self, rules: Sequence[PermissionRule], defaults: Sequence[PermissionRule]) -> None:
        _refuse_unknown_actions(rules, defaults)
        conditions = _conditions(rules, defaults)
        self._patterns: list[str] = []
        self._answers: list[Match] = []
        self._conditions: list[Expression | None] = []
        settled: set[str] = set()
        for answer in _ranked(rules, defaults):
            rule = answer.rule
            assert rule is not None
            # Behind a rule without a condition, another with the same pattern can never speak.
            if rule.pattern in settled:
                continue
            if not rule.when:
                settled.add(rule.pattern)
            self._patterns.append(rule.pattern)
            self._answers.append(answer)
            self._conditions.append(conditions[rule.when])
        self._matchers: list[Matcher | None] = [None] * len(self._patterns)
        self._matchers_made = 0
        self._exact: dict[str, list[int]] = {}
        self._plain: list[tuple[int, int]] = []
        self._literals: LiteralIndex | None = None
        self._index()

    def lookup(self, signature: str, env: Callable[[], Mapping[str, object]] | None = None) -> Match:
        """The answer for one signature; `env` is called at most once, and only if a condition needs it."""
        values: Mapping[str, object] | None = None
        for rank in self._matching(signature):
            condition = self._conditions[rank]
            if condition is None:
                return self._answers[rank]
            try:
                if values is None:
                    values = _values(env)
                if condition.truth(values):
                    return self._answers[rank]
            except ExpressionError as error:
                text = " ".join(f"when `{condition.source}`: {error}".split())
                return self._answers[rank]._replace(decision=Decision.DENY, error=text)
        return _SILENCE

    def _matching(self, signature: str) -> Iterator[int]:
        """Ranks of the rules whose pattern matches, lowest first."""
        hits = self._exact.get(signature, _NOTHING)
        if self._literals is not None:
            hits = hits + self._literals.candidates(signature)
        if len(hits) > 1:
            hits = sorted(hits)
        matchers = self._matchers
        if self._plain:
            hits = yield from self._matching_plain(signature, hits)
        for rank in hits:
            if (matchers[rank] or self._matcher(rank))(signature):
                yield rank
