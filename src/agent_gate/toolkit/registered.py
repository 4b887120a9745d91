"""Registered tools, made only of declarations that can mean what they say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from agent_gate.model.schema import names_without_null, validator
from agent_gate.model.tool import ArgumentKind, ToolDeclaration
from agent_gate.policy.expression import ExpressionError, compile_expression
from agent_gate.policy.signature import signer, validate_name
from agent_gate.ports.tools import RegisteredTool


def make_registered_tool(declaration: ToolDeclaration, service: str, **ways: Any) -> RegisteredTool:
    """Register a declared tool; ValueError where the declaration cannot mean what it says."""
    for mistake in _mistakes(declaration):
        raise ValueError(f"tool `{declaration.name}`: {mistake}")
    validate = validator(declaration.input_schema, hide_values=bool(declaration.secret))
    nulls = names_without_null(declaration.input_schema)
    return RegisteredTool(declaration, service, validate, signer(declaration), nulls_absent=nulls, **ways)


def kinds_of(identifiers: Sequence[str], unsigned: Sequence[str]) -> dict[str, ArgumentKind]:
    kinds = dict.fromkeys(identifiers, ArgumentKind.IDENTIFIER)
    return kinds | dict.fromkeys(unsigned, ArgumentKind.UNSIGNED)


def _mistakes(tool: ToolDeclaration) -> Iterator[str]:
    try:
        validate_name(tool.name)
    except ValueError as error:
        yield str(error)
    if not (math.isfinite(tool.cost) and tool.cost >= 0):
        yield f"a cost of {tool.cost} cannot be charged"
    if tool.timeout_s is not None and not tool.timeout_s > 0:
        yield f"a timeout of {tool.timeout_s} s leaves no time to act"
    known = tool.input_schema.get("properties")
    for name in sorted({*tool.arguments, *tool.sensitive, *tool.secret}):
        if known is not None and name not in known:
            yield f"`{name}` is not an argument of its schema"
    for condition in tool.preconditions:
        try:
            compile_expression(condition)
        except ExpressionError as error:
            yield f"precondition `{condition}`: {error}"
