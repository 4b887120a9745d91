"""The WebSocket door: JSON-RPC 2.0 at `/ws`, for many agents at once."""

from __future__ import annotations

from starlette.routing import BaseRoute, WebSocketRoute

from agent_gate.doors.context import ServerContext
from agent_gate.doors.websocket.connection import LINE
from agent_gate.doors.websocket.door import Door

__all__ = ["LINE", "Door", "routes"]


def routes(context: ServerContext) -> list[BaseRoute]:
    return [WebSocketRoute("/ws", Door(context))]
