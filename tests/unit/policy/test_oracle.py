"""The compiled index and the simple evaluator give the same answer, and answers change only the way they should."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.permission import PermissionRule
from agent_gate.model.verdict import Decision
from agent_gate.policy.rules import Match, RuleIndex
from tests.unit.policy import oracle

_ACTIONS = ("deny", "allow", "ask")
_TOKENS = (
    "t",
    "light",
    "lock",
    "(",
    ")",
    ", ",
    ".",
    "a",
    "b",
    "ab",
    "_",
    "kitchen",
    "1",
    "12",
    "ä",
    "\n",
    "\0",
    "🔒",
    "\ud800",
)
_WILD = ("*", "*", "*", "?", "[ab]", "[!a]", "[a-c]", "[]", "[", "]", "[!]")
_ATOMS = (
    "inputs['n'] < 3",
    "inputs['n'] >= 2",
    "get(inputs, 'a.b', 0) == 2",
    "get(inputs, 'list.1', 'x') == 'y'",
    "'admin' in roles",
    "'a' not in inputs",
    "not confirmed",
    "risk == 'low'",
    "8 <= hour < 18",
    "cost * 2 + 1 > 5",
    "len(roles) > 1",
    "max(cost, hour) % 3 == 0",
    "startswith(tool, 'fs')",
    "state is None",
    "inputs['missing'] == 1",
    "hour / (cost - 1) > 2",
    "cost",
    "tool < hour",
)
Rules = list[PermissionRule]


def _text(random: Random, tokens: Sequence[str], most: int) -> str:
    return "".join(random.choice(tokens) for _ in range(random.randint(0, most)))


def _condition(random: Random) -> str:
    if random.random() < 0.75:
        return ""
    first, second = random.choice(_ATOMS), random.choice(_ATOMS)
    return random.choice((first, f"{first} and {second}", f"{first} or {second}", f"not ({first})"))


def _rules(random: Random, most: int) -> Rules:
    tokens = random.choice((_TOKENS, _TOKENS + _WILD, _TOKENS + _WILD * 3, ("a", "b", "*"), ("a", "*", "?", "[ab]")))
    return [
        PermissionRule(_text(random, tokens, 8), random.choice(_ACTIONS), when=_condition(random))
        for _ in range(random.randint(0, most))
    ]


def _env(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.1:
        return None
    inputs = {"n": random.randint(0, 4), "a": {"b": random.randint(0, 3)}, "list": ["x", "y"]}
    return {
        "inputs": {key: value for key, value in inputs.items() if random.random() < 0.8},
        "state": random.choice((None, {"x": 1})),
        "tool": random.choice(("fs.read", "t")),
        "roles": random.choice(([], ["admin"], ["operator", "admin"])),
        "confirmed": random.random() < 0.5,
        "risk": random.choice(("low", "high")),
        "cost": random.randint(0, 5),
        "hour": random.randint(0, 23),
    }


def _signature(random: Random, rules: Rules) -> str:
    """Often the text of a pattern with its wildcards filled in, so that matches are common."""
    if not rules or random.random() < 0.4:
        return _text(random, _TOKENS, 8)
    filled = random.choice(rules).pattern.replace("?", random.choice("ab1"))
    return filled.replace("[ab]", "a").replace("[!a]", "b").replace("*", _text(random, _TOKENS, 3))


def _as_answer(match: Match, rules: Rules, defaults: Rules) -> oracle.Answer:
    decision = match.decision.value if match.decision else "nothing"
    places = [(f"rules[{number}]", rule) for number, rule in enumerate(rules)]
    places += [(f"defaults[{number}]", rule) for number, rule in enumerate(defaults)]
    place = next((place for place, rule in places if rule is match.rule), "")
    return oracle.Answer(decision, place, bool(match.error))


def _compare(seed: int, most_rules: int, calls: int) -> None:
    random = Random(seed)
    rules, defaults = _rules(random, most_rules), _rules(random, 6)
    index = RuleIndex(rules, defaults)
    for _ in range(calls):
        signature, env = _signature(random, rules + defaults), _env(random)
        answer = _as_answer(_look_up(index, signature, env), rules, defaults)
        assert answer == oracle.answer(rules, defaults, signature, env), (signature, env)


def _look_up(index: RuleIndex, signature: str, env: Mapping[str, Any] | None) -> Match:
    return index.lookup(signature, None if env is None else lambda: env)


@given(st.lists(st.integers(0, 2**32), min_size=10, max_size=10))
def test_the_index_equals_the_oracle(seeds: list[int]) -> None:
    for seed in seeds:
        _compare(seed, most_rules=30, calls=10)


@given(st.integers(0, 2**32))
def test_the_index_equals_the_oracle_without_the_library(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ahocorasick", None)
        _compare(seed, most_rules=30, calls=10)


@pytest.mark.parametrize("seed", range(3))
def test_the_index_equals_the_oracle_with_many_rules(seed: int) -> None:
    _compare(seed, most_rules=1_500, calls=60)


@given(st.integers(0, 2**32))
def test_adding_a_deny_rule_never_turns_an_answer_into_allow(seed: int) -> None:
    random = Random(seed)
    rules, defaults = _rules(random, 20), _rules(random, 4)
    denied = PermissionRule(_text(random, _TOKENS + _WILD, 6), "deny", when=_condition(random))
    at = random.randint(0, len(rules))
    before, after = RuleIndex(rules, defaults), RuleIndex([*rules[:at], denied, *rules[at:]], defaults)
    for _ in range(10):
        signature, env = _signature(random, [*rules, denied]), _env(random)
        if _look_up(after, signature, env).decision is Decision.ALLOW:
            assert _look_up(before, signature, env).decision is Decision.ALLOW


@given(st.integers(0, 2**32))
def test_removing_an_allow_rule_never_adds_an_allow(seed: int) -> None:
    random = Random(seed)
    rules = [rule for rule in _rules(random, 20) if not rule.when]
    allows = [rule for rule in rules if rule.action == "allow"]
    gone = random.choice(allows) if allows else None
    before, after = RuleIndex(rules, []), RuleIndex([rule for rule in rules if rule is not gone], [])
    for _ in range(10):
        signature = _signature(random, rules)
        if after.lookup(signature).decision is Decision.ALLOW:
            assert before.lookup(signature).decision is Decision.ALLOW


@given(st.integers(0, 2**32))
def test_the_order_of_rules_never_changes_the_decision_where_no_condition_can_fail(seed: int) -> None:
    random = Random(seed)
    rules = [rule for rule in _rules(random, 20) if not rule.when]
    shuffled = random.sample(rules, len(rules))
    before, after = RuleIndex(rules, []), RuleIndex(shuffled, [])
    for _ in range(10):
        signature = _signature(random, rules)
        assert after.lookup(signature).decision is before.lookup(signature).decision
