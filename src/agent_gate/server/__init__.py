"""`agent-gate serve`: every door of one gate behind one port."""

from __future__ import annotations

from agent_gate.server.app import build_app
from agent_gate.server.serving import run
from agent_gate.server.starting import Settings, settings_of

__all__ = ["Settings", "build_app", "run", "settings_of"]
