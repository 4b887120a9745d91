"""Requests of others' traffic before the gate: judged here, performed elsewhere."""

from __future__ import annotations

from agent_gate.gate.traffic.judging import Traffic

__all__ = ["Traffic"]
