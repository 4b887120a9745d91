"""Guards: pure judgement of what a guarded tool would touch, from what binding found of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import Policy
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.layers import Answer, deny

__all__ = ["Guard", "GuardContext", "Surroundings", "guard_of", "guard_or_denial"]

Guard: TypeAlias = Callable[[BoundCall, Facts], Answer]
"""Its reason says allow where it passed, deny with a code where it did not, and ask where the policy would rather."""


class GuardContext:
    """Everything that guards of one policy go by, beside their own sections."""

    def __init__(self, policy: Policy, surroundings: Surroundings) -> None:
        self.policy, self.surroundings = policy, surroundings
        self._files: dict[str, PathRules] = {}

    def files(self, tool: str) -> PathRules | None:
        """The rules of `fs.read` or `fs.write`, compiled once; None where the policy has no section for it."""
        section = self.policy.guards.of(tool)
        if section is not None and tool not in self._files:
            self._files[tool] = PathRules(tool, section, self.policy, self.surroundings)
        return self._files.get(tool)


def guard_of(tool: ToolDeclaration, context: GuardContext) -> Guard | None:
    """The guard that a tool brings, with its section of the policy; without one that it needs, it denies."""
    if tool.guard is None:
        return None
    section, given = tool.guard.section, context.policy.guards.of(tool.name)
    if section is not None and section.is_needed and given is None:
        return _denied_without_section(tool.name, section.example)
    guard: object = tool.guard.build(given, context)
    if not callable(guard):
        raise ValueError(f"what the tool brings as its guard judges nothing: {type(guard).__name__}")
    return guard


def guard_or_denial(tool: ToolDeclaration, context: GuardContext) -> Guard | None:
    """The same; one that cannot be built denies, and keeps nobody from judging other tools."""
    try:
        return guard_of(tool, context)
    except Exception as error:
        return _always(
            deny("guard", 1001, f"the guard of `{tool.name}` cannot be built: {type(error).__name__}: {error}")
        )


def _denied_without_section(tool: str, example: str) -> Guard:
    suggestion = f"add one: {example}" if example else "add one"
    return _always(deny("guard", 1001, f"`{tool}` has no section under tools: in the policy", suggestion))


def _always(answer: Answer) -> Guard:
    return lambda _, __: answer
