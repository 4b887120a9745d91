"""Probes: liveness, readiness, and the server's figures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agent_gate.doors.callers import Answered, Callers
from agent_gate.doors.context import ServerContext
from agent_gate.doors.health import health_of
from agent_gate.doors.http import STRANGER, json_response
from agent_gate.doors.observe.metrics import Meter
from agent_gate.doors.reads import look
from agent_gate.history.inbox import is_paused
from agent_gate.model.call import Agent
from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import IdentityError
from agent_gate.model.work import Work
from agent_gate.ports.reading import Reader

_log = logging.getLogger("agent_gate.health")

DOOR, MONITOR = "probes", "monitor"
"""The role of an agent that only looks at the figures."""


class Probes:
    def __init__(self, context: ServerContext, meter: Meter) -> None:
        self._context, self._meter = context, meter
        self._callers = Callers(context.identities, context.throttle)
        self._looking: asyncio.Task[dict[str, str]] | None = None
        self._looked_at = float("-inf")

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/readyz", self._readyz, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]

    async def _healthz(self, _: Request) -> Response:
        return json_response({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        if refused := await self._refusal(request):
            return refused
        checks = dict(await self._checks())
        if self._context.closing.is_set():
            checks["server"] = "closing"
        ready = all(state == "ok" for state in checks.values())
        return json_response({"status": "ready" if ready else "not_ready", "checks": checks}, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        if refused := await self._refusal(request):
            return refused
        await self._context.readings.ask(self._count)
        self._meter.ledger = self._context.gate.ledger.figures()
        self._meter.under_way = self._context.gate.calls_under_way
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._meter.registry), headers={"content-type": content_type})

    def _count(self, reader: Reader) -> None:
        self._meter.questions = reader.count_open_questions(self._context.gate.clock)
        self._meter.results = reader.totals().waiting_results
        self._meter.paused = is_paused(reader)

    async def _refusal(self, request: Request) -> Response | None:
        """Figures tell of everybody's calls: they are for approvers, and for agents that do nothing but look."""
        who = STRANGER
        try:
            caller = await self._callers.of(request)
            if isinstance(caller, Answered):
                if caller.problem is not None:
                    self._context.gate.count_refusal(who, caller.problem)
                return caller.response
            who = caller.id
            if isinstance(caller, Agent) and MONITOR not in caller.roles:
                raise IdentityError(
                    f"this is for approvers and agents with role {MONITOR}", code=6003, suggestion="use their token"
                )
            if isinstance(caller, Agent):
                self._context.gate.observer.looked(DOOR, request.url.path)
            else:
                look(self._context, caller, DOOR, request.url.path)
        except IdentityError as error:
            self._context.gate.count_refusal(who, error.problem)
            raise
        return None

    async def _checks(self) -> Mapping[str, str]:
        """Asked again at most once in a while, and once for all who ask at the same time."""
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now - self._looked_at > self._context.bounds.ready_for_s):
            self._looked_at = now
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> dict[str, str]:
        return await health_of(self._context, {"database": self._database()})

    async def _database(self) -> bool:
        """A reader of its own reads, and the writer takes work."""
        await self._context.readings.ask(lambda reader: reader.heads())
        return isinstance(await self._context.gate.ledger.commit(Work(GATE_PROJECT)), Applied)
