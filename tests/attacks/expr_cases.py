"""Expressions: compiled with the names of the case, evaluated with its values."""

from __future__ import annotations

from pathlib import Path

from agent_gate.policy.expression import ExpressionError, compile_expression
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed

CHECKS = frozenset({"result"})


def run(case: Case, root: Path) -> str:
    source, values = case.args["expr"], dict(case.args.get("vars", {}))
    if not isinstance(source, str):
        return "error"  # A policy whose condition is not text is refused when it is loaded.
    try:
        result = compile_expression(source, frozenset({*values, *case.policy.get("variables", ())})).evaluate(values)
    except ExpressionError:
        return "error"
    if "result" in case.check:
        wanted = case.check["result"]
        if (type(result), result) != (type(wanted), wanted):
            raise CheckFailed(f"expected the result {wanted!r}, got {result!r}")
        return "allow" if case.expect == "allow" or result else "deny"
    if not isinstance(result, bool):
        return "error"  # As a condition it would be: only True and False are answers.
    return "allow" if result or case.expect == "allow" else "deny"
