"""One policy agent from its start to its end in good order."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from agent_gate.chain.executor import Executor
from agent_gate.chain.registry import Registry
from agent_gate.config import Config, PolicyAgentConfig
from agent_gate.doors.codes import Unreachable
from agent_gate.doors.policy_agent.envoy import Kernel, envoy_handlers
from agent_gate.doors.policy_agent.health import Health
from agent_gate.doors.policy_agent.methods import handlers
from agent_gate.doors.policy_agent.place import OURS_ONLY, claimed, umask
from agent_gate.doors.policy_agent.relay import relaying
from agent_gate.doors.policy_agent.running import Running
from agent_gate.doors.policy_agent.service import SERVICE, PolicyAgent
from agent_gate.model.bounds import (
    AGENT_DRAIN_S,
    AGENT_HEALTH_INTERVAL_S,
    AGENT_MESSAGE_OVERHEAD_BYTES,
    AGENT_QUEUE_WAIT_S,
    AGENT_STREAMS_MAX,
)

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


@dataclass(frozen=True, slots=True)
class AgentBounds:
    queue_wait_s: float = AGENT_QUEUE_WAIT_S
    health_interval_s: float = AGENT_HEALTH_INTERVAL_S
    drain_s: float = AGENT_DRAIN_S
    streams_max: int = AGENT_STREAMS_MAX


@asynccontextmanager
async def serving(
    config: Config, registry: Registry, executor: Executor, bounds: AgentBounds | None = None
) -> AsyncIterator[Path]:
    """Serves while the block runs, and gives the path of the socket; ready when the block begins.

    The registry holds every policy by now: before that there is no socket that somebody could be let through by.
    """
    settings = config.policy_agent
    assert settings is not None
    bounds = bounds or AgentBounds()
    outer = Path(settings.socket_path)
    async with AsyncExitStack() as stack:
        stack.enter_context(claimed(outer, for_others=bool(settings.allow_uids)))
        inner = outer
        if settings.allow_uids:
            inner = Path(f"{outer}.private") / "s"
            stack.enter_context(claimed(inner))
        stop = await _started(inner, config, settings, registry, executor, bounds)
        stack.push_async_callback(stop)
        if settings.allow_uids:
            await stack.enter_async_context(relaying(outer, inner, {os.geteuid(), *settings.allow_uids}))
            # What is under way by the relay is answered before the relay goes.
            stack.push_async_callback(stop)
        yield outer


async def _started(
    path: Path,
    config: Config,
    settings: PolicyAgentConfig,
    registry: Registry,
    executor: Executor,
    bounds: AgentBounds,
) -> Callable[[], Awaitable[None]]:
    """A server that runs, and how to end it in good order."""
    server = _server(settings, bounds.streams_max)
    running = Running(settings.max_concurrent_requests, bounds.queue_wait_s)
    health = Health(executor, SERVICE.full_name, bounds.health_interval_s)
    agent = PolicyAgent(registry, executor, running, health, settings)
    kernel = Kernel(config.chains, settings, registry, executor, running)
    server.add_generic_rpc_handlers((handlers(SERVICE, agent.methods()), *envoy_handlers(kernel)))
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection((SERVICE.full_name, HEALTH, reflection.SERVICE_NAME), server)
    _bind(server, path)
    await server.start()
    health.start()

    async def stop() -> None:
        health.close()
        agent.close()
        await server.stop(bounds.drain_s)

    return stop


def _server(settings: PolicyAgentConfig, streams_max: int) -> grpc.aio.Server:
    message_bytes_max = settings.max_body_size + settings.max_state_size + AGENT_MESSAGE_OVERHEAD_BYTES
    return grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", message_bytes_max),
            ("grpc.max_send_message_length", message_bytes_max),
            ("grpc.so_reuseport", 0),
        ),
        maximum_concurrent_rpcs=streams_max,
    )


def _bind(server: grpc.aio.Server, path: Path) -> None:
    with umask(OURS_ONLY):
        try:
            server.add_insecure_port(f"unix:{quote(os.fspath(path))}")
        except RuntimeError:
            raise Unreachable(f"cannot listen at `{path}`", suggestion="choose another path") from None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
