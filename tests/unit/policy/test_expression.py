"""Expressions: what they promise beyond single values, and that nothing in them escapes, hangs or grows."""

from __future__ import annotations

import re
import sys
import time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import EXPRESSION_CHARS_MAX, EXPRESSION_NODES_MAX
from agent_gate.policy.expression import NAMES, ExpressionError, compile_expression
from tests.unit.policy.test_cases import ENV


def test_an_expression_keeps_its_source_and_knows_the_names_it_uses() -> None:
    expression = compile_expression("hour > 8 and get(inputs, 'a', hour) == 1\n")
    assert (expression.source, expression.names) == (
        "hour > 8 and get(inputs, 'a', hour) == 1\n",
        frozenset({"hour", "inputs"}),
    )
    assert repr(expression) == "Expression(\"hour > 8 and get(inputs, 'a', hour) == 1\\n\")"


def test_the_known_names_are_those_of_the_contract() -> None:
    assert " ".join(sorted(NAMES)) == ("agent_id confirmed cost hour inputs mode project risk roles state tool weekday")


def test_other_names_can_be_given() -> None:
    names = frozenset({"amount", "tags"})
    assert compile_expression("amount < 100 and 'x' in tags", names).truth({"amount": 7, "tags": ["x"]}) is True
    with pytest.raises(ExpressionError, match="`tool` is not a known name; known are amount, tags"):
        compile_expression("tool == 'x'", names)


@pytest.mark.parametrize("value", ["x", "", 0, 1, None, [], {}, 1.5])
def test_a_condition_must_come_out_true_or_false(value: Any) -> None:
    expression = compile_expression("inputs")
    assert expression.evaluate({"inputs": value}) == value
    with pytest.raises(ExpressionError, match="not True or False"):
        expression.truth({"inputs": value})


@pytest.mark.parametrize("value", [True, False])
def test_a_condition_that_is_true_or_false_is_just_that(value: bool) -> None:
    assert compile_expression("inputs").truth({"inputs": value}) is value


def test_an_expression_can_be_used_again() -> None:
    expression = compile_expression("inputs['n'] + 1")
    assert [expression.evaluate({"inputs": {"n": n}}) for n in range(3)] == [1, 2, 3]


def test_read_only_mappings_are_objects() -> None:
    inputs = MappingProxyType({"a": MappingProxyType({"b": 1})})
    expression = compile_expression("inputs['a']['b'] == 1 and get(inputs, 'a.b') == 1 and inputs == {'a': {'b': 1}}")
    assert expression.truth({"inputs": inputs}) is True


def test_evaluating_changes_nothing_it_was_given() -> None:
    env: dict[str, Any] = {"inputs": {"list": [1, 2]}, "roles": ["a"]}
    before = repr(env)
    compile_expression("inputs['list'] + roles + inputs['list'] * 2").evaluate(env)
    assert repr(env) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**53), 10**400])
def test_numbers_that_json_does_not_know_cannot_be_compared(value: float) -> None:
    for source in ("inputs < 1", "inputs == 1", "inputs + 1", "-inputs", "abs(inputs)"):
        with pytest.raises(ExpressionError, match=r"^.+$"):
            compile_expression(source).evaluate({"inputs": value})


@pytest.mark.parametrize("source", ["inputs == 1", "inputs in [1]", "len(inputs)", "inputs < 1", "inputs['a']"])
def test_values_that_are_not_json_are_an_error(source: str) -> None:
    with pytest.raises(ExpressionError, match="is not JSON"):
        compile_expression(source).evaluate({"inputs": object()})


def test_an_error_never_shows_the_values() -> None:
    env = {"inputs": {"password": "hunter2"}, "tool": "t"}
    for source in (
        "inputs['password'] < 1",
        "inputs[inputs['password']]",
        "inputs['password'] + 1",
        "len(inputs)['x']",
    ):
        with pytest.raises(ExpressionError) as refused:
            compile_expression(source).evaluate(env)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("letters", "shown"), [(80, "x" * 80), (81, "x" * 77 + "...")])
def test_an_error_quotes_no_more_than_fits_on_a_line(letters: int, shown: str) -> None:
    with pytest.raises(ExpressionError, match=f"^`{re.escape(shown)}` is not a known name"):
        compile_expression("x" * letters)


@pytest.mark.parametrize(
    "source",
    [
        "-" * (EXPRESSION_CHARS_MAX - 1) + "1",
        "not " * (EXPRESSION_CHARS_MAX // 4 - 1) + "1",
        "(" * 900 + "1" + ")" * 900,
        "[" * 250 + "]" * 250,
        "1" + "+1" * 900,
        "tool" + "[0]" * 600,
        "1 if 1 else " * 160 + "1",
        "len(" * 180 + "tool" + ")" * 180,
        "1" * (EXPRESSION_CHARS_MAX + 1),
        "'" * 1999,
        "{'a':" * 150 + "1" + "}" * 150,
    ],
    ids=lambda source: source[:8],
)
def test_what_is_too_deep_or_too_long_is_refused_at_once(source: str) -> None:
    started = time.process_time()
    with pytest.raises(ExpressionError, match=r"^.+$"):
        compile_expression(source).evaluate(ENV)
    assert time.process_time() - started < 5


def test_the_largest_expression_that_is_allowed_can_be_evaluated() -> None:
    assert compile_expression("not " * (EXPRESSION_NODES_MAX - 1) + "confirmed").evaluate(ENV) is True
    assert compile_expression("+".join(["1"] * (EXPRESSION_NODES_MAX // 2))).evaluate(ENV) == 100


def test_little_room_on_the_stack_is_an_error_of_the_expression() -> None:
    expression = compile_expression("not " * 190 + "confirmed")

    def at_depth(frames: int) -> object:
        return at_depth(frames - 1) if frames else expression.evaluate(ENV)

    with pytest.raises(ExpressionError, match="nested too deeply"):
        at_depth(sys.getrecursionlimit() - 150)


def test_little_room_on_the_stack_is_an_error_of_the_expression_at_load_too() -> None:
    def at_depth(frames: int) -> object:
        return at_depth(frames - 1) if frames else compile_expression("not " * 190 + "confirmed")

    with pytest.raises(ExpressionError, match="nested too deeply"):
        at_depth(sys.getrecursionlimit() - 150)


def test_a_text_that_is_longer_than_any_result_may_be_compared_but_not_returned() -> None:
    env = {"inputs": "a" * 10_001}
    assert compile_expression("len(inputs) > 10000").truth(env) is True
    with pytest.raises(ExpressionError, match="a result of more than 10000 characters"):
        compile_expression("inputs").evaluate(env)


def test_a_value_nested_without_end_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    other: list[Any] = [endless]
    with pytest.raises(ExpressionError, match="nested too deeply"):
        compile_expression("inputs == state").evaluate({"inputs": endless, "state": other})


@pytest.mark.parametrize(
    "source",
    [
        "5 in inputs or " * 20 + "False",
        "inputs == state",
        "min(inputs) < 0",
        "lower(tool) == '' or " * 20 + "False",
        "'b' in tool or " * 20 + "False",
    ],
)
def test_work_on_large_values_is_bounded(source: str) -> None:
    env = {"inputs": [0] * 1_000_000, "state": [0] * 1_000_000, "tool": "a" * 1_000_000}
    started = time.process_time()
    with pytest.raises(ExpressionError, match="more than 10000 steps"):
        compile_expression(source).evaluate(env)
    assert time.process_time() - started < 5


def test_a_megabyte_of_text_can_be_searched() -> None:
    env = {"inputs": {"content": "a" * 1_000_000 + "secret"}}
    assert compile_expression("'secret' in lower(inputs['content'])").truth(env) is True


_WORDS = """len min max abs lower startswith endswith get ( ) [ ] { } , : + - * / // % ** << == != < <= 'a' 'a.b' ''
    1 0 1.5 1e308 9007199254740991 True None . ' lambda := f' \\ # __class__ é = and or not if else for in is"""
_FRAGMENTS = st.sampled_from([*sorted(NAMES), *_WORDS.split(), " ", " ", " ", "\n", "\0", "\ud800"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


def _try(source: str, inputs: object) -> None:
    """Compile and evaluate; anything but an ExpressionError escapes and fails the test."""
    env = {**ENV, "inputs": inputs, "state": {"a": {"b": inputs}}, "weekday": 3}
    said = ""
    started = time.process_time()
    try:
        compile_expression(source).evaluate(env)
    except ExpressionError as error:
        said = str(error)
    assert "\n" not in said
    assert time.process_time() - started < 5


@given(st.lists(st.tuples(st.lists(_FRAGMENTS, max_size=14), _VALUES), min_size=10, max_size=10))
def test_fragments_of_expressions_give_a_value_or_an_expression_error(pairs: list[tuple[list[str], object]]) -> None:
    for fragments, inputs in pairs:
        _try("".join(fragments), inputs)


@given(st.lists(st.text(max_size=60), min_size=10, max_size=10))
def test_any_text_gives_a_value_or_an_expression_error(sources: list[str]) -> None:
    for source in sources:
        _try(source, {})


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["+", "-", "*", "/", "//", "%", "==", "<", ">=", "in", "not in", "and", "or"]
    binary = st.builds("({} {} {})".format, inner, st.sampled_from(operators), inner)
    calls = st.builds("{}({})".format, st.sampled_from(["len", "abs", "lower", "min", "max"]), inner)
    more_calls = st.builds("{}({}, {})".format, st.sampled_from(["get", "startswith", "max"]), inner, inner)
    others = st.builds("({} if {} else {})".format, inner, inner, inner) | st.builds("({}[{}])".format, inner, inner)
    return binary | calls | more_calls | others | st.builds("[{}, {}]".format, inner, inner)


_LEAVES = st.sampled_from(
    ["inputs", "state", "tool", "roles", "cost", "0", "2", "1e300", "'a'", "'b.a'", "None", "True"]
)


@given(st.lists(st.tuples(st.recursive(_LEAVES, _grown, max_leaves=12), _VALUES), min_size=5, max_size=5))
def test_well_formed_expressions_give_a_value_or_an_expression_error(pairs: list[tuple[str, object]]) -> None:
    for source, inputs in pairs:
        _try(source, inputs)
