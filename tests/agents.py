"""Policy agents for tests: one in the test's own event loop, and clients that talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import grpc
import grpc.aio

from agent_gate.chain.builtin import builtin_policies
from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.chain.policy import BOTH_PHASES, Policy, PolicyResult
from agent_gate.chain.registry import Registry
from agent_gate.config import Config, GatewayConfig, PolicyAgentConfig, ServicesConfig, StorageConfig
from agent_gate.doors.policy_agent import serving
from agent_gate.doors.policy_agent.listening import AgentBounds
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.structs import struct_of
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import BlockingPool
from tests.gates import PATIENCE_S

SERVICE = "/agentgate.policy.v1.PolicyAgent"


class Scripted(Policy[Mapping[str, Any]]):
    """Does what the test's function does."""

    phases = BOTH_PHASES
    metadata_schema: ClassVar[Mapping[str, Any]] = {"type": "object"}

    def __init__(self, name: str, act: Any) -> None:
        self.name = name  # type: ignore[misc]  # each is another policy
        self._act = act

    def prepare(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        return metadata

    async def execute(self, settings: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        result: PolicyResult = await self._act(settings, context)
        return result


@asynccontextmanager
async def an_agent(
    socket_path: Path,
    *policies: Policy[Any],
    config: Config | None = None,
    bounds: AgentBounds | None = None,
    **settings: Any,
) -> AsyncIterator[Path]:
    """An agent with our own policies and these; `settings` are those of `policy_agent`."""
    config = config or Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    config = replace(config, policy_agent=PolicyAgentConfig(str(socket_path), **settings))
    assert config.policy_agent is not None
    registry = Registry()
    for policy in (*builtin_policies(SystemClock()), *policies):
        registry.register(policy)
    executor = Executor(registry, BlockingPool(2), Bounds.of(config.policy_agent))
    async with serving(config, registry, executor, bounds) as path:
        yield path


class Client:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self._streams: list[Any] = []

    async def call(self, method: str, request: Any, answer: Any, **options: Any) -> Any:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        call: Any = self.channel.unary_unary(f"{SERVICE}/{method}")
        return answer.FromString(await call(data, **options))

    async def execute(self, request: pb.PolicyRequest | bytes, **options: Any) -> pb.PolicyResponse:
        answer: pb.PolicyResponse = await self.call("ExecutePolicies", request, pb.PolicyResponse, **options)
        return answer

    def stream(self) -> Any:
        return self.opened(f"{SERVICE}/ExecutePoliciesStream", pb.PolicyRequest, pb.PolicyResponse)

    def opened(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self.channel.stream_stream(method, request.SerializeToString, answer.FromString)
        self._streams.append(call())
        return self._streams[-1]

    async def end(self) -> None:
        """In good order: gRPC tells the event loop of a later test of a stream that was broken off."""
        for stream in self._streams:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
                await stream.done_writing()
                async with asyncio.timeout(PATIENCE_S):
                    while await stream.read() is not grpc.aio.EOF:
                        pass


@asynccontextmanager
async def a_client(path: Path) -> AsyncIterator[Client]:
    # Each test has its own connection: gRPC shares them between channels with the same address otherwise.
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
        client = Client(channel)
        yield client
        await client.end()


def a_request(*policies: str | pb.PolicyRef, **context: Any) -> pb.PolicyRequest:
    """A request of phase REQUEST for these policies."""
    line = {"method": "GET", "path": "/orders", "scheme": "https", "authority": "api.test", **context}
    headers: Sequence[tuple[str, str]] = line.pop("headers", ())
    refs = [pb.PolicyRef(name=policy) if isinstance(policy, str) else policy for policy in policies]
    return pb.PolicyRequest(
        request_id="r-1",
        policies=refs,
        phase=pb.REQUEST,
        context=pb.RequestContext(headers=[pb.Header(name=name, value=value) for name, value in headers], **line),
    )


def a_ref(name: str, on_failure: str = "", **metadata: Any) -> pb.PolicyRef:
    return pb.PolicyRef(name=name, metadata=struct_of(metadata), on_failure=on_failure)
