"""One built-in policy, asked about one request or response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import RequestContext
from agent_gate.chain.policy import Policy
from agent_gate.chain.prepared import PolicyRef
from agent_gate.model.errors import Problem
from agent_gate.ports.judging import HttpRequest, RequestAllowed, RequestDenied, RequestHeld
from tests.unit.chain.scripted import an_executor


async def ask(policy: Policy[Any], metadata: Mapping[str, Any], context: RequestContext | None = None) -> Response:
    return await an_executor(policy).execute([PolicyRef(policy.name, metadata)], context or RequestContext())


def answer_of(response: Response) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON body of what the caller is told."""
    assert response.immediate is not None
    body = response.immediate.body
    return response.immediate.status, dict(response.immediate.headers), json.loads(body) if body else None


class FakeJudge:
    """A gate that denies some requests, lets some pass, and asks about the rest."""

    def __init__(self, allowed: tuple[str, ...] = (), denied: tuple[str, ...] = ()) -> None:
        self.allowed, self.denied = allowed, denied
        self.asked: list[HttpRequest] = []
        self._open: dict[HttpRequest, str] = {}
        self._approved: set[HttpRequest] = set()

    async def judge_request(self, request: HttpRequest) -> RequestAllowed | RequestDenied | RequestHeld:
        self.asked.append(request)
        if request.signature in self.denied:
            return RequestDenied(Problem(1001, "rule `no`", "ask for something else"))
        if request.signature in self.allowed:
            return RequestAllowed()
        if request in self._approved:
            self._approved.discard(request)
            return RequestAllowed()
        return RequestHeld(self._open.setdefault(request, f"call-{len(self._open) + 1}"), 5)

    async def health_check(self) -> None:
        """It always can."""

    def approve(self, call_id: str) -> None:
        request = next(request for request, open_id in self._open.items() if open_id == call_id)
        del self._open[request]
        self._approved.add(request)
