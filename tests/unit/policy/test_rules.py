"""The rule index: what it answers, what it asks for, what it refuses, and how fast it stays."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.errors import ConfigError
from agent_gate.model.permission import PermissionRule
from agent_gate.model.verdict import Decision
from agent_gate.policy.literals import LiteralIndex, find_by_tail, finder
from agent_gate.policy.patterns import literals, matcher
from agent_gate.policy.rules import Match, RuleIndex


def _rule(action: str, pattern: str, when: str = "") -> PermissionRule:
    return PermissionRule(pattern, action, when=when)


def test_an_answer_names_decision_rule_and_origin() -> None:
    rule, default = _rule("deny", "t(*)"), _rule("allow", "*")
    index = RuleIndex([rule], [default])
    assert index.lookup("t(x)") == Match(Decision.DENY, rule, "rule", "")
    assert index.lookup("u") == Match(Decision.ALLOW, default, "default", "")
    assert RuleIndex([rule], []).lookup("u") == Match(None, None, "", "")


def test_an_answer_keeps_the_description_of_its_rule() -> None:
    rule = PermissionRule("t", "deny", "doors stay shut")
    assert RuleIndex([rule], []).lookup("t").rule is rule


def test_a_condition_that_fails_denies_and_says_which_condition_and_why() -> None:
    rule = _rule("allow", "t", when="inputs['a']\n == 1")
    match = RuleIndex([rule], []).lookup("t", lambda: {"inputs": {}})
    error = "when `inputs['a'] == 1`: `inputs['a']` is not there; get() takes a default"
    assert match == Match(Decision.DENY, rule, "rule", error)


def test_the_facts_are_asked_for_once_for_several_conditions() -> None:
    asked = []

    def env() -> Mapping[str, object]:
        asked.append(1)
        return {"hour": 5}

    index = RuleIndex([_rule("allow", "t", f"hour == {hour}") for hour in range(9)], [])
    assert index.lookup("t", env).decision is Decision.ALLOW
    assert asked == [1]


@pytest.mark.parametrize("rules", [[], [_rule("deny", "t")], [_rule("allow", "t"), _rule("ask", "t", "hour > 1")]])
def test_the_facts_are_not_asked_for_where_no_condition_matters(rules: list[PermissionRule]) -> None:
    def env() -> Mapping[str, object]:
        raise AssertionError

    RuleIndex(rules, []).lookup("t", env)


def test_every_mistake_is_named_at_once() -> None:
    rules = [_rule("permit", "a"), _rule("allow", "b", "hour >"), _rule("allow", "c", "nosuch")]
    with pytest.raises(ConfigError) as refused:
        RuleIndex(rules, [_rule("Deny", "d")])
    places = [problem.partition(": ")[0] for problem in refused.value.problems]
    assert places == ["rules[0] `a`", "rules[1] `b`", "rules[2] `c`", "defaults[0] `d`"]


def test_a_rule_behind_an_equal_pattern_without_condition_cannot_speak() -> None:
    same = [_rule("allow", "t(*)")] * 50_000
    index = RuleIndex([*same, _rule("deny", "t(*)", "hour > 9")], [])
    assert index.lookup("t(x)", lambda: {"hour": 10}).decision is Decision.DENY
    assert index.lookup("t(x)", lambda: {"hour": 9}) == Match(Decision.ALLOW, same[0], "rule")


def test_patterns_that_share_every_literal_are_all_tried() -> None:
    rules = [_rule("allow", f"light.room_[{chr(97 + n // 26)}{chr(97 + n % 26)}]_lamp") for n in range(26 * 26)]
    index = RuleIndex(rules, [])
    assert index.lookup("light.room_z_lamp").rule is rules[25]
    assert index.lookup("light.room_a_lamp").rule is rules[0]
    assert index.lookup("light.room_ab_lamp") == Match(None)


def test_patterns_that_share_one_literal_are_found_by_another() -> None:
    rules = [_rule("allow", f"*(x.{i}, *_{j})") for i in range(40) for j in range(40)]
    index = RuleIndex(rules, [])
    assert [index.lookup(f"t(x.{i}, y_{j})").rule for i in range(40) for j in range(40)] == rules
    assert index.lookup("t(x.40, y_1)") == Match(None)


def test_a_matcher_that_was_dropped_to_save_memory_is_made_again() -> None:
    rules = [_rule("allow", f"t_{n}(*)") for n in range(20)]
    index = RuleIndex(rules, [], matchers_max=3)
    for _ in range(3):
        assert [index.lookup(f"t_{n}(x)").rule for n in range(20)] == rules


def test_without_the_library_the_same_literals_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ahocorasick", None)
    rules = [_rule("allow", f"tool_with_a_long_name_{n}(*)") for n in range(100)]
    index = RuleIndex(rules, [])
    assert [index.lookup(f"tool_with_a_long_name_{n}(x)").rule for n in range(100)] == rules
    assert index.lookup("tool_with_a_long_name_100(x)") == Match(None)


@given(
    st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=30, unique=True),
    st.lists(st.text("abc", max_size=40), min_size=1, max_size=10),
)
def test_both_finders_find_every_literal_that_occurs(words: list[str], texts: list[str]) -> None:
    numbers = {word: number for number, word in enumerate(words)}
    for find in (finder(numbers), find_by_tail(numbers)):
        for text in texts:
            assert find(text) == {number for word, number in numbers.items() if word in text}


PATTERNS = st.one_of(st.text("ab*?", max_size=10), st.text("ab*?[]!-^&|~\\\n", max_size=10), st.text(max_size=6))


@given(st.lists(st.tuples(PATTERNS, st.text("ab[]-!^\n", max_size=10)), min_size=1, max_size=50))
def test_a_matcher_agrees_with_fnmatch(pairs: list[tuple[str, str]]) -> None:
    for pattern, text in pairs:
        match = matcher(pattern)
        assert bool(match(text)) is fnmatchcase(text, pattern)
        assert bool(match(pattern)) is fnmatchcase(pattern, pattern)


@given(st.lists(st.tuples(PATTERNS, st.text("ab[]-!^\n", max_size=10)), min_size=1, max_size=50))
def test_every_literal_of_a_pattern_occurs_in_whatever_it_matches(pairs: list[tuple[str, str]]) -> None:
    for pattern, text in pairs:
        if fnmatchcase(text, pattern):
            assert [literal for literal in literals(pattern) if literal not in text] == []


@pytest.mark.parametrize("pattern", ["*a?b*", "*[ab]?c*", "*a*b*a*b*c", "a" * 40 + "*?" * 40, "*a*aa*aaa*?b"])
def test_a_megabyte_of_repetition_is_matched_at_once(pattern: str) -> None:
    text = "a" * 1_000_000
    started = time.process_time()
    assert bool(matcher(pattern)(text)) is fnmatchcase(text, pattern)
    assert time.process_time() - started < 5


def test_the_index_of_literals_offers_only_what_can_match() -> None:
    index = LiteralIndex({1: ["light", "kitchen"], 2: ["light", "hall"], 3: ["lock"]})
    assert sorted(index.candidates("light.kitchen")) == [1]
    assert sorted(index.candidates("a lock in the hall")) == [2, 3]
    assert index.candidates("") == []
