"""The tool registry: every tool of every service by its name, and the way from a name to a hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent_gate.model.errors import ConfigError, ExecutionError, Problem
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports import RegisteredTool, ServiceHandler
from agent_gate.tools.catalogue import CONFIGURED

LOOK = "see the list of tools"
TOOL_SERVICE_MAP = CONFIGURED
"""Tools that belong to a service which may not be configured here."""


class ToolRegistry:
    """Hands by name; a name is taken once."""

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

    def find(self, name: str) -> RegisteredTool | None:
        return self._registered.get(name)

    def declaration(self, name: str) -> ToolDeclaration | None:
        registered = self._registered.get(name)
        return None if registered is None else registered.declaration

    def missing(self, name: str) -> Problem:
        """Why there is no such hand, and which one was probably meant."""
        problem = missing(name).problem.at("bind")
        if problem.code != ExecutionError.default_code:
            return problem
        return replace(problem, suggestion=did_you_mean(name, (*self._registered, *TOOL_SERVICE_MAP), LOOK))

    def all(self) -> Sequence[RegisteredTool]:
        return list(self._registered.values())


def missing(name: str) -> ExecutionError:
    """Why a name leads to no hand: nobody knows it, or its service is not configured."""
    service = TOOL_SERVICE_MAP.get(name)
    if service is not None:
        return ExecutionError(f"Service not configured: {service}", code=2006)
    return ExecutionError(f"Unknown tool: {name}", code=2001)


class Executor:
    """Routes a tool to the service that provides it, or that is known to."""

    def __init__(self, services: Mapping[str, ServiceHandler]) -> None:
        self._services = services

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        service = self._services.get(TOOL_SERVICE_MAP.get(tool_name, "")) or self._provider(tool_name)
        if service is None:
            raise missing(tool_name)
        return await service.execute(tool_name, args)

    def _provider(self, tool_name: str) -> ServiceHandler | None:
        for service in self._services.values():
            tools = getattr(service, "tools", tuple)
            if any(tool.name == tool_name for tool in tools()):
                return service
        return None
