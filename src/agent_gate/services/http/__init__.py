"""The HTTP service: `http.get`, whose every step goes only where judgement has looked."""

from agent_gate.services.http.service import HttpService

__all__ = ["HttpService"]
