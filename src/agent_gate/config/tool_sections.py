"""Sections under `tools:` of a policy: each is of a tool that is loaded here, declares it and can guard it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from agent_gate.config.build import builder_for
from agent_gate.config.declaration import declared
from agent_gate.config.file_format import FileFormat
from agent_gate.config.installed_tools import installed_tools
from agent_gate.config.problems import Problems
from agent_gate.model.nearest import nearest
from agent_gate.model.policy import Policy
from agent_gate.model.setting import NOTHING
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.guards import GuardContext, Surroundings, guard_of
from agent_gate.tools.catalogue import BUILTIN

_LIKENESS = 0.6
"""As among the fields of one section: what is as like as this is a slip, and told as one."""


class ToolSections:
    """The sections that a policy may have where these tools are loaded."""

    def __init__(self, tools: Mapping[str, ToolDeclaration]) -> None:
        self._tools = tools
        taking = [(tool, tool.section.declared_by) for tool in tools.values() if tool.section is not None]
        self._unreadable = {tool.name: why for tool, by in taking if (why := _why_unreadable(tool, by))}
        self.declared: tuple[tuple[str, Any], ...] = tuple(
            (tool.name, by) for tool, by in taking if tool.name not in self._unreadable
        )

    def check_names(self, names: Iterable[str], problems: Problems) -> None:
        """Adds sections of tools that are not loaded here, and of those that take none."""
        known = dict(self.declared)
        for name in names:
            if name in known:
                continue
            if name in self._unreadable:
                why = self._unreadable[name]
                problems.add(("tools", name), f"what `{name}` declares it by cannot be read ({why}); mend its package")
            elif name in self._tools:
                problems.add(("tools", name), f"`{name}` takes no section; write rules for it, or take this one out")
            elif not nearest(name, known, _LIKENESS):
                problems.add(
                    ("tools", name),
                    f"`{name}` is not a tool here: the service `{_service_of(name)}` is missing; install or load it, or"
                    " take the section out",
                )

    def check_guards(self, policy: Policy, problems: Problems) -> None:
        """Adds sections that no guard can go by, although nothing is wrong with their shape."""
        context = GuardContext(policy, Surroundings())
        for name in policy.guards.sections:
            try:
                guard_of(self._tools[name], context)
            except ValueError as error:
                problems.add(("tools", name), str(error))
            except Exception as error:  # whatever a package of others does wrong
                problems.add(("tools", name), f"its guard cannot be built: {type(error).__name__}: {error}")


def _why_unreadable(tool: ToolDeclaration, declared_by: Any) -> str:
    """Say what is wrong with the declaration of a section of others; ours are tested."""
    if BUILTIN.get(tool.name) is tool:
        return ""
    try:
        if not is_dataclass(declared(declared_by).kind):
            return "it is no dataclass"
        hash(declared_by)
        builder_for(declared_by, {})
        FileFormat(tool.name, declared_by, NOTHING).validator  # noqa: B018 -- made when it is first asked for
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _service_of(tool: str) -> str:
    """By the custom that tools bear the name of their service before a dot or an underscore."""
    return tool.partition("." if "." in tool else "_")[0]


def sections_for(named: Iterable[str], tools: Mapping[str, ToolDeclaration] | None = None) -> ToolSections:
    """Those of the given tools; otherwise of the built-in ones, and where another is named, of installed packages."""
    if tools is not None:
        return ToolSections(tools)
    if all(name in BUILTIN for name in named):
        return _OF_BUILTIN
    return ToolSections({**installed_tools(), **BUILTIN})


_OF_BUILTIN = ToolSections(BUILTIN)
