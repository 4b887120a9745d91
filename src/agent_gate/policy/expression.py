"""The safe expression language of `when` and preconditions: a subset of Python, compiled once to closures.

Conditions read as in Python, on JSON values. What differs, so that a slip denies and never allows:
true and false are not numbers, things of different kinds cannot be ordered, a key that is missing is an
error (`get` has a default instead), and a condition must come out as True or False, not merely truthy.
"""

from __future__ import annotations

import ast
import re

from agent_gate.model.bounds import EXPRESSION_CHARS_MAX, EXPRESSION_NODES_MAX, EXPRESSION_RESULT_CHARS_MAX
from agent_gate.policy.compiler import Compiler, Env, Run, one_line
from agent_gate.policy.operations import Budget, ExpressionError, kind

__all__ = ["NAMES", "Expression", "ExpressionError", "compile_expression"]

NAMES = frozenset(
    ("inputs", "state", "tool", "agent_id", "roles", "project", "mode", "confirmed", "risk", "cost", "hour", "weekday")
)
"""Names that an expression can see."""

_LEXEME = re.compile(
    r"""(?P<text>(?P<three>\"{3}|'{3})(?:[^\\]|\\.)*?(?P=three)|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')"""
    r"""|(?P<blank>(?:\\?(?:\r\n|\r|\n)|\#[^\r\n]*)+)|(?P<open>['"])""",
    re.DOTALL,
)
"""A text; what is a blank: ends of lines, also continued ones, and comments; a quote that begins a text without end."""

# Python would only warn of these, or not, depending on filters that are not ours to set.
_KNOWN_ESCAPES = re.compile(r"""(?:[^\\]|\\[\\'"abfnrtvxuUN0-3\n])*""")


class Expression:
    """One compiled expression; it can be evaluated any number of times, from any thread."""

    __slots__ = ("_run", "names", "source")

    def __init__(self, source: str, names: frozenset[str], run: Run) -> None:
        self.source = source
        self.names = names
        """The names that it uses, of those that it could see."""
        self._run = run

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def evaluate(self, env: Env) -> object:
        """The value, or an `ExpressionError`."""
        try:
            result = self._run(env, Budget())
        except RecursionError:
            raise ExpressionError("values or expression nested too deeply") from None
        if isinstance(result, str) and len(result) > EXPRESSION_RESULT_CHARS_MAX:
            raise ExpressionError(f"a result of more than {EXPRESSION_RESULT_CHARS_MAX} characters")
        return result

    def truth(self, env: Env) -> bool:
        """Tell whether the condition holds; a result that is neither True nor False is an `ExpressionError`."""
        result = self.evaluate(env)
        if not isinstance(result, bool):
            raise ExpressionError(f"the condition is {kind(result)}, not True or False; compare it with something")
        return result


def compile_expression(source: str, names: frozenset[str] = NAMES) -> Expression:
    """The expression, which may run over several lines, or an `ExpressionError` that says what is not allowed."""
    if len(source) > EXPRESSION_CHARS_MAX:
        raise ExpressionError(f"longer than {EXPRESSION_CHARS_MAX} characters")
    text = _on_one_line(source).strip()
    try:
        compiler = Compiler(text, names)
        run = compiler.compile(_parse(text))
    except RecursionError:
        raise ExpressionError("nested too deeply") from None
    return Expression(source, frozenset(compiler.used), run)


def _on_one_line(source: str) -> str:
    """The expression with a blank for each end of a line and each comment.

    So what is parsed is one expression or an error: nothing is put around it that a stray bracket could close.
    """

    def plain(found: re.Match[str]) -> str:
        if found["open"]:
            raise ExpressionError(f"cannot be read: a text that begins with {found['open']} has no end")
        return found["text"] or " "

    return _LEXEME.sub(plain, source)


def _parse(source: str) -> ast.expr:
    if not source:
        raise ExpressionError("empty; leave it out, or write a condition")
    if not _KNOWN_ESCAPES.fullmatch(source):
        raise ExpressionError("a backslash that escapes nothing; write it twice")
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, OverflowError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise ExpressionError(f"cannot be read: {one_line(reason)}") from None
    if sum(isinstance(node, ast.expr) for node in ast.walk(tree)) > EXPRESSION_NODES_MAX:
        raise ExpressionError(f"more than {EXPRESSION_NODES_MAX} parts")
    return tree
