"""The policy agent: chains of request policies over gRPC on a Unix socket, for a proxy in front."""

from __future__ import annotations

from agent_gate.doors.policy_agent.listening import serving

__all__ = ["serving"]
