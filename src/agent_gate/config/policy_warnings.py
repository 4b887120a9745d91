"""Warnings about what a policy says without effect: it loads, and whoever loads it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from agent_gate.config.argument_order import only_by_key
from agent_gate.config.unmatched import Unmatched
from agent_gate.model.policy import Policy
from agent_gate.model.tool import ToolDeclaration
from agent_gate.model.visible import visible
from agent_gate.policy.signature import shown
from agent_gate.tools.catalogue import BUILTIN

UNMATCHED_MAX = 20
"""Rules that are told one by one; whoever has more of them has another mistake."""


def warnings_of(policy: Policy, tools: Mapping[str, ToolDeclaration] | None = None) -> tuple[str, ...]:
    """One line each. `tools` are those that are here beside the built-in ones."""
    known = {**BUILTIN, **(tools or {})}
    unmatched = list(islice(_unmatched_rules(policy, known), UNMATCHED_MAX + 1))
    if len(unmatched) > UNMATCHED_MAX:
        unmatched[-1] = "further rules can never match; mend these first"
    return (*unmatched, *_by_the_old_order(policy, known), *_told_by_tools(policy, known))


def _unmatched_rules(policy: Policy, tools: Mapping[str, ToolDeclaration]) -> Iterator[str]:
    unmatched = Unmatched(tools)
    for place, rule in policy.placed_rules():
        if why := unmatched.why(rule.pattern):
            yield visible(f"{place} `{shown(rule.pattern)}` can never match: {why}")


def _by_the_old_order(policy: Policy, tools: Mapping[str, ToolDeclaration]) -> Iterator[str]:
    ordered = [tool for tool in tools.values() if tool.order]
    for place, rule in policy.placed_rules() if ordered else ():
        for tool in ordered:
            if why := only_by_key(rule.pattern, tool):
                yield visible(f"{place} `{shown(rule.pattern)}`: {why}")


def _told_by_tools(policy: Policy, tools: Mapping[str, ToolDeclaration]) -> Iterator[str]:
    for tool in tools.values():
        if tool.warnings is not None:
            yield from tool.warnings(policy)
