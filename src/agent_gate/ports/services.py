"""Providers of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.tools import RegisteredTool

Offered: TypeAlias = ToolDeclaration | Callable[..., Any] | RegisteredTool
"""A tool of a service: a declaration, which `execute` does, or a function decorated with @tool or @transition."""


class ServiceHandler(Protocol):
    """A service as the core-engine document asks for it."""

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json: ...

    async def health_check(self) -> bool: ...

    async def close(self) -> None: ...


class ToolProvider(Protocol):
    """The least that a service is; whatever else it does not have gets a default when it is started."""

    def tools(self) -> Sequence[Offered]: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json: ...


class Service(ServiceHandler, Protocol):
    """A provider of tools with a life cycle."""

    @property
    def name(self) -> str: ...

    @property
    def dependencies(self) -> Sequence[str]: ...

    def tools(self) -> Sequence[Offered]: ...

    async def start(self) -> None: ...


class Introduction(NamedTuple):
    """The line with which a service introduces itself to whoever starts a server."""

    label: str
    """One word, under which `--json` has the fields."""
    text: str
    fields: Mapping[str, Json]


@runtime_checkable
class Introduced(Protocol):
    """A service that has something to say of itself once it has started, such as what it is connected to."""

    @property
    def introduction(self) -> Introduction: ...
