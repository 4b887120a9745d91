"""A tool's declaration as the policy sees it: `declare` tightens what tools say, and speaks for those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from agent_gate.model.policy import Declare
from agent_gate.model.tool import Effect, Risk, ToolDeclaration

_EFFECT_RANK = {Effect.NONE: 0, Effect.READ: 1, Effect.WRITE: 2}


def unregistered(name: str) -> ToolDeclaration:
    """Declare what must be assumed of a tool that nobody describes."""
    return ToolDeclaration(name, effect=Effect.WRITE, risk=Risk.MEDIUM, cost=1, registered=False)


def declared(tool: ToolDeclaration, declares: Sequence[Declare]) -> ToolDeclaration:
    """The declaration after every matching `declare`; a registered tool can only become stricter."""
    for declare in declares:
        if fnmatchcase(tool.name, declare.pattern):
            tool = _tighten(tool, declare) if tool.registered else _fill(tool, declare)
    return tool


def _tighten(tool: ToolDeclaration, declare: Declare) -> ToolDeclaration:
    effect, risk = tool.effect, tool.risk
    if declare.effect and tool.effect is not Effect.NONE:
        effect = max(tool.effect, declare.effect, key=_EFFECT_RANK.__getitem__)
    if declare.risk and declare.risk.exceeds(risk):
        risk = declare.risk
    roles = tool.required_roles
    if declare.required_roles is not None:
        roles = tuple(role for role in declare.required_roles if not roles or role in roles) or ("",)
    return replace(
        tool,
        effect=effect,
        risk=risk,
        cost=max(tool.cost, declare.cost or 0),
        required_roles=roles,
        confirmation_required=tool.confirmation_required or bool(declare.confirmation_required),
        preconditions=(*tool.preconditions, *(declare.preconditions or ())),
    )


def _fill(tool: ToolDeclaration, declare: Declare) -> ToolDeclaration:
    fields = {
        name: value
        for name in ("effect", "risk", "cost", "required_roles", "confirmation_required", "preconditions")
        if (value := getattr(declare, name)) is not None
    }
    return replace(tool, **fields)
