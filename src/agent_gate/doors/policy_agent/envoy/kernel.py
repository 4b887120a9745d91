"""Puts the requests and responses of Envoy before the chains of the configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_gate.chain.accumulator import Response
from agent_gate.chain.configured import ConfiguredChain, configured, refs_of
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Executor
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.prepared import Chain
from agent_gate.chain.registry import Registry
from agent_gate.config import ChainPolicyConfig, PolicyAgentConfig
from agent_gate.doors.policy_agent.envoy.mapping import Request
from agent_gate.doors.policy_agent.envoy.refusals import refusal, refusal_of
from agent_gate.doors.policy_agent.envoy.room import Room
from agent_gate.doors.policy_agent.envoy.routes import Asked, Routes, Unclear
from agent_gate.doors.policy_agent.methods import Busy
from agent_gate.doors.policy_agent.running import Running
from agent_gate.model.bounds import AGENT_KEPT_BYTES_MAX

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """The chain of a route."""

    chain: ConfiguredChain
    bodies: bool

    @property
    def request(self) -> Chain:
        return self.chain.request

    @property
    def response(self) -> Chain:
        return self.chain.response


class Kernel:
    def __init__(
        self,
        chains: Mapping[str, Sequence[ChainPolicyConfig]],
        settings: PolicyAgentConfig,
        registry: Registry,
        executor: Executor,
        running: Running,
    ) -> None:
        """ConfigError where a chain that a route names cannot be used."""
        self._executor, self._running = executor, running
        self.room, self.body_bytes_max = Room(AGENT_KEPT_BYTES_MAX), executor.bounds.body_bytes_max
        self._routes = Routes(settings.routes)
        names = {route.chain for route in settings.routes}
        self._chains = {name: configured(name, refs_of(chains[name]), registry, executor) for name in names}

    def way(self, request: Request, route_name: str) -> Way | ImmediateResponse:
        """Find what this request has to go through; it is refused where there is no chain for it."""
        try:
            route = self._routes.find(Asked(route_name, request.authority, request.path))
        except Unclear as unclear:
            return refusal(400, str(unclear))
        if route is None:
            _log.warning("no route of policy_agent.routes fits a request of Envoy's route `%s`: denied", route_name)
            return refusal(403, "no policy speaks for this request")
        return Way(self._chains[route.chain], route.bodies)

    async def judge(self, chain: Chain, context: RequestContext, request_id: str) -> Response | ImmediateResponse:
        """The response of a chain that lets the message pass; otherwise the answer to the client."""
        try:
            async with self._running.one():
                response = await self._executor.run(chain, context, request_id=request_id)
        except InvalidRequest as error:
            return refused_as_invalid(error, chain.phase)
        except Busy as error:
            _log.info("refused before any policy: %s", error)
            return refusal(503, "too much is under way")
        answer = refusal_of(response, chain.phase)
        if answer is None:
            return response
        return answer


def refused_as_invalid(error: InvalidRequest, phase: Phase) -> ImmediateResponse:
    """A request that HTTP does not know, or one with more body than may be."""
    _log.info("refused: %s", error.problem)
    return refusal(400 if phase is Phase.REQUEST else 502, "the message is malformed or too large")
