"""The tool registry: every tool of every service by its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent_gate.compat import TOOL_SERVICE_MAP, missing
from agent_gate.model.errors import ConfigError, ExecutionError, Problem
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.tool import ToolDeclaration
from agent_gate.ports.tools import RegisteredTool

LOOK = "see the list of tools"


class ToolRegistry:
    """Registered tools by name; a name is taken once."""

    def __init__(self, registered_tools: Iterable[RegisteredTool] = ()) -> None:
        self._registered: dict[str, RegisteredTool] = {}
        for registered in registered_tools:
            self.add(registered)

    def add(self, registered: RegisteredTool) -> None:
        name = registered.declaration.name
        if name in self._registered:
            raise ConfigError(
                f"two tools are called `{name}`, of `{self._registered[name].service}` and `{registered.service}`",
                suggestion="rename one of them",
            )
        self._registered[name] = registered

    def offer(self, service: str, registered_tools: Iterable[RegisteredTool]) -> None:
        """Make these the tools of a service, in place of those that it had: all of them, or none where a name is taken.

        For services whose tools come and go while a gate runs, such as those of a server elsewhere.
        """
        others = {name: one for name, one in self._registered.items() if one.service != service}
        changed = ToolRegistry((*others.values(), *registered_tools))
        self._registered = changed._registered

    def find(self, name: str) -> RegisteredTool | None:
        return self._registered.get(name)

    def declaration(self, name: str) -> ToolDeclaration | None:
        registered = self._registered.get(name)
        return None if registered is None else registered.declaration

    def missing(self, name: str) -> Problem:
        """Say why there is no such tool, and which one was probably meant."""
        problem = missing(name).problem.at("bind")
        if problem.code != ExecutionError.default_code:
            return problem
        return replace(problem, suggestion=did_you_mean(name, (*self._registered, *TOOL_SERVICE_MAP), LOOK))

    def all(self) -> Sequence[RegisteredTool]:
        return list(self._registered.values())
