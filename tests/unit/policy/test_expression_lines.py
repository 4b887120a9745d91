"""A condition is exactly one expression, however many lines it has and whatever brackets, quotes and comments."""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.policy.expression import ExpressionError, compile_expression

NAMES = frozenset({"a", "b"})
VALUES = {"a": True, "b": False}
FRAGMENTS = (
    *("a", "b", "True", "False", "or", "and", "not", "if", "else", "1", ","),
    *("(", ")", "[", "]", "{", "}", "\n", "\r\n", "\r", "\\\n", "\t", "\f", ";", ":=", "lambda:", "*", "\\"),
    *("# )\n", "#", "# '\n", "'", '"', "'''", '"""', "')'", '"("', "'#'", "'\\''", "'''\n'''", '"""\n)"""'),
    *("r'\\'", "f''", "a or b", "(a", "b)", ") or (True", "(b\n)", "a\n", "\nand b"),
)  # fmt: skip
SOURCES = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=9).map(" ".join) | st.lists(
    st.sampled_from(FRAGMENTS), min_size=1, max_size=9
).map("".join)


def as_python_reads_it(source: str) -> object:
    """The value within brackets of either kind; a bracket of its own that closes both does not exist."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = [ast.parse(form.format(source), mode="eval") for form in ("({}\n)", "[{}\n]")]
        values = [eval(compile(tree, "condition", "eval"), {"__builtins__": {}}, VALUES) for tree in parsed]
    return with_lists(values[0])


def with_lists(value: object) -> object:
    """Tuples are lists in conditions."""
    return [with_lists(item) for item in value] if isinstance(value, tuple | list) else value


@given(SOURCES)
@example("b\n) or (True")
@example("b # )\n or (a)")
@example("'\n' == '\n'")
@example("a\\\n or b")
def test_what_is_accepted_is_one_expression_and_means_what_python_reads(source: str) -> None:
    try:
        value = compile_expression(source, NAMES).evaluate(VALUES)
    except ExpressionError:
        return
    assert value == as_python_reads_it(source)


@pytest.mark.parametrize(
    "source",
    [
        "b\n) or (True",
        "b\n) or True or (\nb",
        "b) or (True\n",
        "(b\n)) or (True",
        "b\n] or [True",
        "b\n} or {True",
        "b # )\n) or (True",
        "b\n; True",
        "b\nTrue",
        "b or\n",
        "b \\",
        "'b\n' == 'b'",
        "'b\nor True or '",
        '"""b\n',
        "(a := True)\nor b",
        "a :=\nTrue",
        "lambda:\nTrue",
        "(yield\nTrue)",
        "*a,\nb",
        "# b\n# True",
        "\n",
        "# only a comment",
    ],
)
def test_what_is_not_one_expression_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(source, NAMES)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a\nand not b", True),
        ("a\r\nand\r\nnot b\r\n", True),
        ("a # true\nand # (\nnot b # )", True),
        ("# first\na", True),
        ("a \\\n and not b", True),
        ("(\n  a\n  or b\n)", True),
        ("'#' == '\\x23'", True),
        ("'\"' ==\n'\"'", True),
        ("'''\n''' == '\\n'", True),
        ('"""a # b\n)""" == "a # b\\n)"', True),
        ("'it\\'s' == \"it's\"", True),
        ("'a\\\nb' == 'ab'", True),
    ],
)
def test_an_expression_may_run_over_lines_with_comments_and_quotes(source: str, value: object) -> None:
    assert compile_expression(source, NAMES).evaluate(VALUES) == value
