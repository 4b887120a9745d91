"""Every door of one hall, as one ASGI application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from agent_gate.doors import api, console, websocket
from agent_gate.doors.hall import Hall
from agent_gate.doors.http import EXCEPTION_HANDLERS, Doorkeeper
from agent_gate.doors.observe import Observation

DOORS = (websocket, api, console)


def build_app(hall: Hall, observation: Observation | None = None) -> ASGIApp:
    observation = observation or Observation(hall)
    routes = [route for door in DOORS for route in door.routes(hall)] + observation.routes()
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    return observation.around(Doorkeeper(app, hall.config.gateway.host, hall.gate.count_refusal))
