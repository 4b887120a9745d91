"""Observation of a server from outside: its health, its figures, its logs and its traces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opentelemetry import context as span_context
from opentelemetry import propagate
from starlette.datastructures import Headers
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_gate.doors.context import ServerContext
from agent_gate.doors.observe.logs import RequestLog, configure_logs, secrets_of
from agent_gate.doors.observe.metrics import Meter
from agent_gate.doors.observe.probes import Probes
from agent_gate.doors.observe.spans import with_spans
from agent_gate.doors.observe.watchdog import Watchdog

__all__ = ["Observation", "Watchdog", "configure_logs", "routes", "secrets_of"]


class Observation:
    """Watches the gate of one server from now on."""

    def __init__(self, context: ServerContext) -> None:
        gate = context.gate
        self.meter = Meter(gate.clock)
        self.meter.offer(registered.declaration.name for registered in gate.tools.all())
        gate.observer = with_spans(self.meter, gate.clock)
        self._probes = Probes(context, self.meter)

    def routes(self) -> list[BaseRoute]:
        return self._probes.routes()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, with its requests logged, counted and tied to the traces that they come from."""
        return RequestLog(_Counted(app, self.meter))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """With an eye on the event loop, for as long as the block runs."""
        async with Watchdog(self.meter.lag.add, self._blocked).watching():
            yield

    def _blocked(self) -> None:
        self.meter.blocked += 1


def routes(context: ServerContext) -> list[BaseRoute]:
    return Observation(context).routes()


class _Counted:
    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app, self._meter = app, meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._count_socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._count_request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _count_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._meter.sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._meter.sockets -= 1

    async def _count_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._meter.responses[str(message["status"])] += 1
            await send(message)

        headers = Headers(scope=scope)
        if "traceparent" not in headers:
            await self._app(scope, receive, counting)
            return
        token = span_context.attach(propagate.extract(headers))
        try:
            await self._app(scope, receive, counting)
        finally:
            span_context.detach(token)
