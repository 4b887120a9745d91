"""`agent-gate serve`: every door of one gate behind one port."""

from __future__ import annotations

from agent_gate.hosts.server.app import build_app
from agent_gate.hosts.server.serving import run
from agent_gate.hosts.server.starting import Settings, settings_of

__all__ = ["Settings", "build_app", "run", "settings_of"]
