"""The service `agentgate.policy.v1.PolicyAgent`: chains that requests bring along."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import grpc
import grpc.aio

from agent_gate import __version__
from agent_gate.chain.executor import Executor
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.registry import Registry
from agent_gate.config import PolicyAgentConfig
from agent_gate.doors.policy_agent.chains import ReadyChains
from agent_gate.doors.policy_agent.health import Health
from agent_gate.doors.policy_agent.methods import Busy, Context, Method, parsed
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.running import Running
from agent_gate.doors.policy_agent.translate import context_of, info_of, phase_of, refusal, response_of

_log = logging.getLogger(__name__)

SERVICE = pb.DESCRIPTOR.services_by_name["PolicyAgent"]


class PolicyAgent:
    def __init__(
        self, registry: Registry, executor: Executor, running: Running, health: Health, config: PolicyAgentConfig
    ) -> None:
        self._registry, self._executor, self._config = registry, executor, config
        self._running, self._health = running, health
        self._chains = ReadyChains(registry, allow_empty=config.allow_empty_chain)
        self._idle: set[asyncio.Task[None]] = set()
        """Streams that wait for their next request."""
        self._closing = False

    def methods(self) -> Mapping[str, Method]:
        return {
            "GetAgentConfig": self.get_agent_config,
            "ExecutePolicies": self.execute_policies,
            "ExecutePoliciesStream": self.execute_policies_stream,
            "HealthCheck": self.health_check,
        }

    async def get_agent_config(self, _: pb.GetAgentConfigRequest, __: Context) -> pb.GetAgentConfigResponse:
        config = self._config
        return pb.GetAgentConfigResponse(
            agent_name=config.name,
            agent_version=__version__,
            supported_policies=map(info_of, self._registry.infos()),
            agent_metadata={
                "max_body_size": str(config.max_body_size),
                "max_state_size": str(config.max_state_size),
                "max_concurrent_requests": str(config.max_concurrent_requests),
                "policy_timeout_ms": str(config.policy_timeout_ms),
            },
        )

    async def health_check(self, _: pb.HealthCheckRequest, __: Context) -> pb.HealthCheckResponse:
        ailments = await self._health.look()
        if not ailments:
            return pb.HealthCheckResponse(status=pb.HealthCheckResponse.HEALTHY, message="all policies healthy")
        told = "; ".join(f"policy {name} unhealthy: {ailment}" for name, ailment in ailments.items())
        return pb.HealthCheckResponse(status=pb.HealthCheckResponse.UNHEALTHY, message=told)

    async def execute_policies(self, request: pb.PolicyRequest, context: Context) -> pb.PolicyResponse:
        return await self._execute(request, context.time_remaining())

    async def execute_policies_stream(self, context: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._closing:
            self._idle.add(task)
            try:
                data = await context.read()
            except asyncio.CancelledError:
                if self._closing:
                    break
                raise
            finally:
                self._idle.discard(task)
            if data is grpc.aio.EOF:
                return
            await context.write((await self._answer(data)).SerializeToString())
        # A stream that ended well could be taken for a yes to whatever was still on its way.
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the agent is ending")

    async def _answer(self, data: bytes) -> pb.PolicyResponse:
        """One request of a stream; what is wrong with it is its own matter."""
        request_id = ""
        try:
            request = parsed(pb.PolicyRequest, data)
            request_id = request.request_id
            return await self._execute(request, None)
        except InvalidRequest as error:
            _log.info("refused before any policy: %s", error.problem)
            return refusal(request_id, str(error.problem))
        except Busy as error:
            _log.info("refused before any policy: %s", error)
            return refusal(request_id, str(error))

    async def _execute(self, request: pb.PolicyRequest, remaining_s: float | None) -> pb.PolicyResponse:
        phase = phase_of(request)
        chain = self._chains.find(request.policies, phase)
        context = context_of(request, phase)
        deadline_s = request.deadline_ms / 1000 or None
        if remaining_s is not None:
            deadline_s = remaining_s if deadline_s is None else min(remaining_s, deadline_s)
        async with self._running.one(deadline_s) as deadline_s:
            response = await self._executor.run(chain, context, request_id=request.request_id, deadline_s=deadline_s)
        return response_of(response)

    def close(self) -> None:
        """Streams end after the request that they are at; those that wait for one, at once."""
        self._closing = True
        for task in self._idle:
            task.cancel()
