"""Services, our own and those of others: found by entry point, started in order, closed in reverse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.services import Offered, Service, ToolProvider
from agent_gate.ports.tools import Act, RegisteredTool, Transition
from agent_gate.system.entry_points import SERVICES, offers
from agent_gate.toolkit.offered import registered_tool
from agent_gate.toolkit.registered import make_registered_tool
from agent_gate.toolkit.tables import refuse_rows_of_others

_REQUIRED = ("tools", "execute")
_OPTIONAL = ("name", "dependencies", "start", "health_check", "close")


class _Completed:
    """A service with a default for each thing that it does not have: it is well, and has nothing to start or close."""

    def __init__(self, service: ToolProvider) -> None:
        self._service = service
        self.name: str = getattr(service, "name", None) or type(service).__name__.removesuffix("Service").lower()
        self.dependencies: Sequence[str] = getattr(service, "dependencies", ())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def tools(self) -> Sequence[Offered]:
        return self._service.tools()

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return await self._service.execute(tool_name, args)

    async def start(self) -> None:
        if hasattr(self._service, "start"):
            await self._service.start()

    async def health_check(self) -> bool:
        return bool(await self._service.health_check()) if hasattr(self._service, "health_check") else True

    async def close(self) -> None:
        if hasattr(self._service, "close"):
            await self._service.close()


def completed(service: ToolProvider | Service) -> Service:
    """The service with everything that a gate asks of one; ConfigError where it could do nothing."""
    missing = [f"`{name}`" for name in _REQUIRED if not callable(getattr(service, name, None))]
    if missing:
        named = getattr(service, "name", None) or type(service).__name__
        raise ConfigError(
            f"the service `{named}` has no {' and no '.join(missing)}",
            suggestion="a service says its tools() and does them by execute(tool_name, args)",
        )
    is_whole = all(hasattr(service, name) for name in _OPTIONAL)
    return cast("Service", service) if is_whole else _Completed(service)


def installed() -> list[Service]:
    """Load what other packages offer under the entry-point group; each names a class or function without arguments."""
    services: list[Service] = []
    for point in offers(SERVICES):
        try:
            services.append(completed(point.load()()))
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the service `{point.name}` of `{point.value}` cannot be loaded: {type(error).__name__}: {error}",
                suggestion="mend or uninstall the package that offers it",
            ) from error
    return services


def registered_tools(service: Service) -> list[RegisteredTool]:
    """A service's tools as the gate holds them; one that it only declares is called by `execute`."""
    offered = getattr(service, "registered_tools", None)
    if offered is not None:
        return list(offered())
    return [_registered(service, tool) for tool in service.tools()]


def _registered(service: Service, offered: Offered) -> RegisteredTool:
    if isinstance(offered, ToolDeclaration):
        return make_registered_tool(offered, service.name, act=_by_execute(service, offered))
    registered = registered_tool(offered)
    act = _with_its_own_rows(service, registered.act) if registered.act else None
    return replace(registered, service=service.name, act=act)


def declarations(service: ToolProvider) -> Iterator[ToolDeclaration]:
    """List what each tool of a service says of itself; the service need not be started."""
    for offered in service.tools():
        yield offered if isinstance(offered, ToolDeclaration) else registered_tool(offered).declaration


def installed_tools() -> dict[str, ToolDeclaration]:
    """The declared tools of installed packages, by name."""
    return {tool.name: tool for service in installed() for tool in declarations(service)}


def transitions_of(services: Iterable[ToolProvider]) -> dict[str, Transition]:
    """Their pure tools by name; a pure function needs no service that was started."""
    offered = (registered for service in services for registered in registered_tools(completed(service)))
    return {registered.declaration.name: registered.transition for registered in offered if registered.transition}


def _by_execute(service: Service, tool: ToolDeclaration) -> object:
    async def act(bound: BoundCall) -> Json:
        return await service.execute(tool.name, dict(bound.args))

    return _with_its_own_rows(service, act)


def _with_its_own_rows(service: Service, act: Act) -> Act:
    async def checked(bound: BoundCall) -> Json:
        result = await act(bound)
        refuse_rows_of_others(result, service)
        return result

    return checked


@asynccontextmanager
async def started(services: Iterable[Service | ToolProvider]) -> AsyncIterator[Sequence[Service]]:
    """All of them, started; what was started is closed, also where a later one fails."""
    ordered = in_order([completed(service) for service in services])
    async with AsyncExitStack() as stack:
        for service in ordered:
            await service.start()
            stack.push_async_callback(service.close)
        yield ordered


def in_order(services: Sequence[Service]) -> list[Service]:
    """Each after those that it depends on; ConfigError where that cannot be."""
    by_name: dict[str, Service] = {}
    for service in services:
        if service.name in by_name:
            raise ConfigError(f"two services are called `{service.name}`", suggestion="uninstall one of them")
        by_name[service.name] = service
    ordered: dict[str, Service] = {}
    for name in by_name:
        _place(name, by_name, ordered, ())
    return list(ordered.values())


def _place(name: str, by_name: Mapping[str, Service], ordered: dict[str, Service], above: tuple[str, ...]) -> None:
    if name in ordered:
        return
    if name in above:
        raise ConfigError(f"services depend on each other in a circle: {' → '.join((*above, name))}")
    service = by_name.get(name)
    if service is None:
        raise ConfigError(f"service `{above[-1]}` depends on `{name}`, which is not here", suggestion="install it")
    for dependency in service.dependencies:
        _place(dependency, by_name, ordered, (*above, name))
    ordered[name] = service
