"""The tool registry: every tool of every service by its name, and the way from a name to a hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent_gate.model.errors import ConfigError, ExecutionError, Problem
from agent_gate.model.home_assistant import HOME_ASSISTANT_TOOLS
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.tool import Json
from agent_gate.ports import Hand, ServiceHandler

LOOK = "see the list of tools"
TOOL_SERVICE_MAP = {tool.name: "homeassistant" for tool in HOME_ASSISTANT_TOOLS}
"""Tools that belong to a service which may not be configured here."""


class ToolRegistry:
    """Hands by name; a name is taken once."""

    def __init__(self, hands: Iterable[Hand] = ()) -> None:
        self._hands: dict[str, Hand] = {}
        for hand in hands:
            self.add(hand)

    def add(self, hand: Hand) -> None:
        name = hand.declaration.name
        if name in self._hands:
            raise ConfigError(
                f"two tools are called `{name}`, of `{self._hands[name].service}` and `{hand.service}`",
                suggestion="rename one of them",
            )
        self._hands[name] = hand

    def find(self, name: str) -> Hand | None:
        return self._hands.get(name)

    def missing(self, name: str) -> Problem:
        """Why there is no such hand, and which one was probably meant."""
        problem = missing(name).problem.at("bind")
        if problem.code != ExecutionError.default_code:
            return problem
        return replace(problem, suggestion=did_you_mean(name, (*self._hands, *TOOL_SERVICE_MAP), LOOK))

    def all(self) -> Sequence[Hand]:
        return list(self._hands.values())


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
