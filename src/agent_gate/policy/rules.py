"""The permission rules, compiled once into an index that is searched in the order in which rules speak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_gate.model.bounds import MATCHERS_MAX
from agent_gate.model.errors import ConfigError
from agent_gate.model.permission import PermissionRule
from agent_gate.model.verdict import Decision
from agent_gate.policy.expression import Expression, ExpressionError, compile_expression
from agent_gate.policy.literals import LITERAL_CHARS_MIN, LiteralIndex
from agent_gate.policy.patterns import Matcher, characters, covers, is_glob, literals, matcher, may_match
from agent_gate.policy.state_aliases import beginning_of, is_wide

_GLOBS_FEW = 8
"""So many globs are tried one by one: that is as fast as an index, and starts sooner."""

_ENDLESS = 1 << 62
_NOTHING: list[int] = []


class Match(NamedTuple):
    """The word of the rules on one signature; `decision` is None where no rule and no default speaks."""

    decision: Decision | None
    rule: PermissionRule | None = None
    origin: str = ""
    """`rule`, `default`, or empty."""
    error: str = ""
    """Reason why the condition of `rule` could not be evaluated; the decision is then a deny."""


_SILENCE = Match(None)
_DECISIONS = {decision.value: decision for decision in Decision}


class RuleIndex:
    """Every rule has a rank: the deny rules in file order, then allow, then ask, then the defaults.

    The matching rule of lowest rank speaks. A rule with a condition is passed over where its condition is
    false; where it cannot be evaluated, the search ends there with a deny. So the conditions of rules that
    rank behind the one that speaks are never evaluated.
    """

    def __init__(
        self,
        rules: Sequence[PermissionRule],
        defaults: Sequence[PermissionRule],
        resolve: Callable[[str], str] = str,
        *,
        matchers_max: int = MATCHERS_MAX,
    ) -> None:
        """`resolve` gives the pattern that stands for one which means something only at a place."""
        conditions = _compiled_conditions(rules, defaults)
        self._patterns: list[str] = []
        self._answers: list[Match] = []
        self._conditions: list[Expression | None] = []
        settled: set[str] = set()
        for answer in _ranked(rules, defaults):
            rule = answer.rule
            assert rule is not None
            pattern = resolve(rule.pattern)
            # Behind a rule without a condition, another with the same pattern can never speak.
            if pattern in settled:
                continue
            if not rule.when:
                settled.add(pattern)
            self._patterns.append(pattern)
            self._answers.append(answer)
            self._conditions.append(conditions[rule.when])
        self._matchers: list[Matcher | None] = [None] * len(self._patterns)
        self._matchers_made, self._matchers_max = 0, matchers_max
        self._exact: dict[str, list[int]] = {}
        self._plain: list[list[tuple[int, int]]] = []
        self._literals: LiteralIndex | None = None
        self._index()

    def lookup(self, signature: str, env: Callable[[], Mapping[str, object]] | None = None) -> Match:
        """The answer for one signature; `env` is called at most once, and only if a condition needs it."""
        return self._first(self._matching(signature), env)

    def lookup_alias(
        self, alias: str, signatures: Sequence[str], env: Callable[[], Mapping[str, object]] | None = None
    ) -> Match:
        """The answer for one alias of a call; that a rule allows it there lets nothing pass.

        A rule that matches the signatures themselves has had its say on them, where an allow rule may silence it.
        """
        return self._first((rank for rank in self._concerned(alias) if not self._has_spoken(rank, signatures)), env)

    def may_refuse(self, beginning: str) -> bool:
        """Tell whether a deny or an ask could match a name that begins so."""
        spoken = zip(self._patterns, self._answers, strict=True)
        return any(
            answer.decision is not Decision.ALLOW and may_match(pattern, beginning) for pattern, answer in spoken
        )

    def met_by(self, signature: str) -> list[PermissionRule]:
        """Every rule and default whose pattern matches, in the order in which they speak, whatever their condition."""
        return [rule for rank in self._concerned(signature) if (rule := self._answers[rank].rule) is not None]

    def _concerned(self, name: str) -> Iterator[int]:
        """Ranks of the rules that may speak of a name; of a wide one, those that could match a name that it stands for.

        An allow counts there only where it matches all of them.
        """
        return self._overlapping(beginning_of(name)) if is_wide(name) else self._matching(name)

    def _overlapping(self, beginning: str) -> Iterator[int]:
        for rank, (pattern, answer) in enumerate(zip(self._patterns, self._answers, strict=True)):
            if (covers if answer.decision is Decision.ALLOW else may_match)(pattern, beginning):
                yield rank

    def _has_spoken(self, rank: int, signatures: Sequence[str]) -> bool:
        if self._answers[rank].decision is Decision.ALLOW:
            return False
        return all((self._matchers[rank] or self._matcher(rank))(signature) for signature in signatures)

    def _first(self, ranks: Iterable[int], env: Callable[[], Mapping[str, object]] | None) -> Match:
        values: Mapping[str, object] | None = None
        for rank in ranks:
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

    def passed_over(self, signature: str) -> PermissionRule | None:
        """Of a signature of which nothing speaks: the first rule that would, if its condition held, and is no deny."""
        answers = (self._answers[rank] for rank in self._matching(signature))
        return next((answer.rule for answer in answers if answer.decision is not Decision.DENY), None)

    def _matching(self, signature: str) -> Iterator[int]:
        """Ranks of the rules whose pattern matches, lowest first."""
        hits = self._exact.get(signature, _NOTHING)
        if self._literals is not None:
            hits = hits + self._literals.candidates(signature)
            if len(hits) > 1:
                hits.sort()
        found = self._verified(hits, signature)
        return self._merged(found, signature) if self._plain else found

    def _verified(self, ranks: Iterable[int], signature: str) -> Iterator[int]:
        matchers = self._matchers
        for rank in ranks:
            if (matchers[rank] or self._matcher(rank))(signature):
                yield rank

    def _merged(self, found: Iterator[int], signature: str) -> Iterator[int]:
        """Merge what was found by literals with what has to be tried one by one."""
        matchers = self._matchers
        next_found = next(found, _ENDLESS)
        for number, block in enumerate(self._plain):
            # Which characters are missing is worth knowing only if the first few patterns did not decide.
            absent = ~characters(signature) if number else 0
            for rank, needed in block:
                while next_found < rank:
                    yield next_found
                    next_found = next(found, _ENDLESS)
                if not needed & absent and (matchers[rank] or self._matcher(rank))(signature):
                    yield rank
        while next_found < _ENDLESS:
            yield next_found
            next_found = next(found, _ENDLESS)

    def _matcher(self, rank: int) -> Matcher:
        if self._matchers_made >= self._matchers_max:
            self._matchers[:] = [None] * len(self._matchers)
            self._matchers_made = 0
        made = self._matchers[rank] = matcher(self._patterns[rank])
        self._matchers_made += 1
        return made

    def _index(self) -> None:
        globs: dict[int, list[str]] = {}
        for rank, pattern in enumerate(self._patterns):
            if is_glob(pattern):
                globs[rank] = literals(pattern)
            else:
                self._exact.setdefault(pattern, []).append(rank)
        helpful: dict[int, list[str]] = {}
        plain: list[tuple[int, int]] = []
        for rank, runs in globs.items():
            telling = [run for run in runs if len(run) >= LITERAL_CHARS_MIN]
            if telling and len(globs) > _GLOBS_FEW:
                helpful[rank] = telling
            else:
                plain.append((rank, characters(*runs)))
        self._plain = [block for block in (plain[:_GLOBS_FEW], plain[_GLOBS_FEW:]) if block]
        if helpful:
            self._literals = LiteralIndex(helpful)


def _values(env: Callable[[], Mapping[str, object]] | None) -> Mapping[str, object]:
    if env is None:
        raise ExpressionError("there is nothing to evaluate it on")
    return env()


def _ranked(rules: Sequence[PermissionRule], defaults: Sequence[PermissionRule]) -> Iterator[Match]:
    """The answer of each rule, in order of rank."""
    for tier in (Decision.DENY, Decision.ALLOW, Decision.ASK):
        for rule in rules:
            if rule.action == tier.value:
                yield Match(tier, rule, "rule")
    for rule in defaults:
        yield Match(_DECISIONS[rule.action], rule, "default")


def _compiled_conditions(
    rules: Sequence[PermissionRule], defaults: Sequence[PermissionRule]
) -> dict[str, Expression | None]:
    """Every condition by its source; a ConfigError names all actions and conditions that are not valid."""
    conditions: dict[str, Expression | None] = {"": None}
    problems: list[str] = []
    for section, listed in (("rules", rules), ("defaults", defaults)):
        for number, rule in enumerate(listed):
            if rule.action not in _DECISIONS:
                problems.append(
                    f"{section}[{number}] `{rule.pattern}`: action `{rule.action}` is unknown; write allow, deny or ask"
                )
            if rule.when not in conditions:
                try:
                    conditions[rule.when] = compile_expression(rule.when)
                except ExpressionError as error:
                    problems.append(f"{section}[{number}] `{rule.pattern}`: when: {error}")
    if problems:
        raise ConfigError.of_all(problems)
    return conditions
