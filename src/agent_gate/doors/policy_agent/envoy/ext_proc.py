"""Envoy's external processing: one stream for each request, with its response."""

from __future__ import annotations

import grpc.aio

from agent_gate.chain.faults import InvalidRequest
from agent_gate.doors.policy_agent.envoy.exchange import Exchange
from agent_gate.doors.policy_agent.envoy.kernel import Kernel
from agent_gate.doors.policy_agent.methods import Context, parsed
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb

NAME = "envoy.service.ext_proc.v3.ExternalProcessor"
SERVICE = pb.DESCRIPTOR.services_by_name["ExternalProcessor"]


class ExternalProcessor:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def process(self, context: Context) -> None:
        """Answers until Envoy has no more to ask.

        It never ends a stream well while something is open: to Envoy that is leave to go on without us.
        """
        exchange = Exchange(self._kernel)
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                for answer in await exchange.answers(parsed(pb.ProcessingRequest, data)):
                    await context.write(answer.SerializeToString())
            if not exchange.is_settled:
                raise InvalidRequest("the stream ended before its message", suggestion="send all of it")
        finally:
            exchange.close()
