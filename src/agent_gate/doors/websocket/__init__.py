"""The WebSocket door: JSON-RPC 2.0 at `/ws`, for many agents at once."""

from __future__ import annotations

from starlette.routing import BaseRoute, WebSocketRoute

from agent_gate.doors.hall import Hall
from agent_gate.doors.websocket.connection import LINE
from agent_gate.doors.websocket.door import Door

__all__ = ["LINE", "Door", "routes"]


def routes(hall: Hall) -> list[BaseRoute]:
    return [WebSocketRoute("/ws", Door(hall))]
