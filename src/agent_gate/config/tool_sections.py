"""Checks sections under `tools:` of a policy beyond their shape: each is of a tool that is here, and can guard it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_gate.config.problems import Problems
from agent_gate.model.nearest import nearest
from agent_gate.model.policy import Policy
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.guards import GuardContext, Surroundings, guard_of

_LIKENESS = 0.6
"""As among the fields of one section: what is as like as this is a slip, and told as one."""


def check_sections(names: Iterable[str], tools: Mapping[str, ToolDeclaration], problems: Problems) -> None:
    """Adds sections of tools that are not loaded here, and of those that take none."""
    known = {tool.name for tool in tools.values() if tool.section is not None}
    for name in names:
        if name in known:
            continue
        if name in tools:
            problems.add(("tools", name), f"`{name}` takes no section; write rules for it, or take this one out")
        elif not nearest(name, known, _LIKENESS):
            problems.add(
                ("tools", name),
                f"no tool `{name}` is loaded here: the service `{_service_of(name)}` is missing; install or load it,"
                " or take the section out",
            )


def _service_of(tool: str) -> str:
    """By the custom that tools bear the name of their service before a dot or an underscore."""
    return tool.partition("." if "." in tool else "_")[0]


def check_guards(policy: Policy, tools: Mapping[str, ToolDeclaration], problems: Problems) -> None:
    """Adds sections that no guard can go by, although nothing is wrong with their shape."""
    context = GuardContext(policy, Surroundings())
    for name in policy.guards.sections:
        try:
            guard_of(tools[name], context)
        except ValueError as error:
            problems.add(("tools", name), str(error))
