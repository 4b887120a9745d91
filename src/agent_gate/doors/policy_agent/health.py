"""Health of the policies, told the same by `HealthCheck` and by the standard health service of gRPC."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeAlias

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agent_gate.chain.executor import Executor
from agent_gate.chain.panics import told
from agent_gate.model.bounds import AGENT_HEALTH_INTERVAL_S

_log = logging.getLogger(__name__)

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_Answer = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """Looks whenever somebody asks, and from time to time for those who watch."""

    def __init__(self, executor: Executor, service: str, interval_s: float = AGENT_HEALTH_INTERVAL_S) -> None:
        self._executor, self._services, self._interval_s = executor, ("", service), interval_s
        self._ailments: dict[str, str] = {}
        self._ending = False
        self._news = asyncio.Event()
        """Set, and replaced, whenever the status changes."""
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_again())

    def close(self) -> None:
        """From now on nobody should send anything here, however well the policies are."""
        self._ending = True
        self._tell()
        if self._looking is not None:
            self._looking.cancel()

    async def look(self) -> dict[str, str]:
        """Collect what ails each policy that cannot do its work; the log tells what has changed."""
        found = await self._executor.health()
        before, self._ailments = self._ailments, found
        for name in sorted(found.keys() - before.keys()):
            _log.warning("policy `%s` is unhealthy: %s", name, found[name])
        for name in sorted(before.keys() - found.keys()):
            _log.warning("policy `%s` is healthy again", name)
        if bool(found) is not bool(before):
            self._tell()
        return found

    async def Check(self, request: health_pb2.HealthCheckRequest, context: _Context) -> _Answer:
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        await self.look()
        return self._answer(request)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: _Context) -> None:
        await self.look()
        sent = None
        while True:
            news, ending, answer = self._news, self._ending, self._answer(request)
            if answer != sent:
                await context.write(answer)
                sent = answer
            if ending:
                return
            await news.wait()

    def _answer(self, request: health_pb2.HealthCheckRequest) -> _Answer:
        if request.service not in self._services:
            return _Answer(status=_Answer.SERVICE_UNKNOWN)
        return _Answer(status=_Answer.NOT_SERVING if self._ending or self._ailments else _Answer.SERVING)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _look_again(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:
                _log.error("the health of policies cannot be told: %s", told(error))
            await asyncio.sleep(self._interval_s)
