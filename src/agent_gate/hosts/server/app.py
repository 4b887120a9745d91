"""Every door of one server, as one ASGI application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from agent_gate.doors import api, console, websocket
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import EXCEPTION_HANDLERS, Doorkeeper
from agent_gate.doors.observe import Observation

DOORS = (websocket, api, console)


def build_app(context: ServerContext, observation: Observation | None = None) -> ASGIApp:
    observation = observation or Observation(context)
    routes = [route for door in DOORS for route in door.routes(context)] + observation.routes()
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    return observation.around(Doorkeeper(app, context.config.gateway.host, context.gate.count_refusal))
