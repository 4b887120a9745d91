"""How many requests a second the policy agent takes, beside a bare echo on the same gRPC server and Unix socket."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import grpc
import grpc.aio
import uvloop

from agent_gate.chain.builtin import builtin_policies
from agent_gate.chain.executor import Executor
from agent_gate.chain.registry import Registry
from agent_gate.config import PolicyAgentConfig
from agent_gate.doors.policy_agent.health import Health
from agent_gate.doors.policy_agent.methods import handlers
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.running import Running
from agent_gate.doors.policy_agent.service import SERVICE, PolicyAgent
from agent_gate.doors.policy_agent.structs import struct_of
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import BlockingPool
from bench.figure import Figure, at_least

CALLERS = 16
WARM_UP_S, MEASURED_S, ROUNDS = 0.2, 0.6, 9
KEY = "key-of-the-bench-0123456789abcdef"
CHAIN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("api_key", {"keys": [{"id": "bench", "key": KEY}]}),
    ("rate_limit", {"limit": 1_000_000, "per_seconds": 1, "burst": 1_000_000, "by": "address"}),
    ("set_headers", {"headers": {"x-checked-by": "agent-gate"}}),
    ("body_size", {"max_bytes": 65_536}),
    ("remove_headers", {"headers": ["x-internal"]}),
)
AGENT = f"/{SERVICE.full_name}"
Round = Callable[[grpc.aio.Channel, bytes], Awaitable[float]]


def figures(directory: Path) -> Iterator[Figure]:
    rounds: list[dict[str, float]] = []
    with _served(directory) as path:
        # Kinds take turns, so that noise from outside meets all of them; of the ratios, the median counts.
        for _ in range(ROUNDS):
            rounds.append({name: asyncio.run(_measured(path, load)) for name, load in _LOADS.items()})
    bare = f"bare grpc.aio echo of the same message, {CALLERS} callers"
    unary, echo = _middle(rounds, "unary", "echo")
    yield at_least("ExecutePolicies, five policies", unary, echo, bare, "1/s", 0.6)
    stream, unary = _middle(rounds, "stream", "unary")
    yield at_least("ExecutePoliciesStream, five policies", stream, unary, "ExecutePolicies", "1/s", 1.5)


def _middle(rounds: list[dict[str, float]], ours: str, reference: str) -> tuple[float, float]:
    """Both rates of the round whose ratio is the median."""
    middle = sorted(rounds, key=lambda rates: rates[ours] / rates[reference])[len(rounds) // 2]
    return middle[ours], middle[reference]


def request() -> bytes:
    headers = {
        "accept": "application/json", "accept-encoding": "gzip", "content-length": "256",
        "content-type": "application/json", "user-agent": "bench", "x-api-key": KEY, "x-internal": "1",
        "x-request-id": "0198c2f2-7d7c-7cc3-98a3-0a8f5c2b6f11",
    }  # fmt: skip
    return pb.PolicyRequest(
        request_id="0198c2f2-7d7c-7cc3-98a3-0a8f5c2b6f11",
        policies=[pb.PolicyRef(name=name, metadata=struct_of(metadata)) for name, metadata in CHAIN],
        context=pb.RequestContext(
            headers=[pb.Header(name=name, value=value) for name, value in headers.items()],
            body=b"x" * 256, method="POST", path="/v1/orders", scheme="https", authority="api.test",
            query_params=[pb.QueryParam(name="page", value="2")], client_ip="192.0.2.7",
        ),
        phase=pb.REQUEST,
    ).SerializeToString()  # fmt: skip


async def _measured(path: str, load: Round) -> float:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        return await load(channel, request())


async def _counted(callers: list[Callable[[], Awaitable[object]]]) -> float:
    """Calls a second of all callers together, each with one on its way."""
    count, running = 0, True

    async def call_on(caller: Callable[[], Awaitable[object]]) -> None:
        nonlocal count
        while running:
            answer = await caller()
            assert isinstance(answer, bytes)
            assert answer
            count += 1

    tasks = [asyncio.create_task(call_on(caller)) for caller in callers]
    await asyncio.sleep(WARM_UP_S)
    before, start = count, time.perf_counter()
    await asyncio.sleep(MEASURED_S)
    rate = (count - before) / (time.perf_counter() - start)
    running = False
    await asyncio.gather(*tasks)
    return rate


def _unary(method: str) -> Round:
    async def load(channel: grpc.aio.Channel, data: bytes) -> float:
        call: Any = channel.unary_unary(method)

        async def caller() -> object:
            return await call(data)

        return await _counted([caller] * CALLERS)

    return load


async def _streams(channel: grpc.aio.Channel, data: bytes) -> float:
    def opened() -> Callable[[], Awaitable[object]]:
        stream: Any = channel.stream_stream(f"{AGENT}/ExecutePoliciesStream")()

        async def caller() -> object:
            await stream.write(data)
            return await stream.read()

        return caller

    return await _counted([opened() for _ in range(CALLERS)])


_LOADS = {"echo": _unary("/bench/Echo"), "unary": _unary(f"{AGENT}/ExecutePolicies"), "stream": _streams}


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """The server in a process of its own, and the path of its socket."""
    path = directory / "agent.sock"
    process = Popen([sys.executable, "-m", "bench.policy_agent", str(path)], stdout=PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield str(path)
    finally:
        process.terminate()
        process.wait()


async def _serve(path: str) -> None:
    async def echo(message: pb.PolicyRequest, _: object) -> pb.PolicyRequest:
        return message

    config = PolicyAgentConfig(path)
    registry = Registry()
    for policy in builtin_policies(SystemClock()):
        registry.register(policy)
    executor = Executor(registry, BlockingPool(1))
    health = Health(executor, SERVICE.full_name)
    agent = PolicyAgent(registry, executor, Running(config.max_concurrent_requests), health, config)
    bare = grpc.unary_unary_rpc_method_handler(echo, pb.PolicyRequest.FromString, pb.PolicyRequest.SerializeToString)
    echoing = grpc.method_handlers_generic_handler("bench", {"Echo": bare})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(SERVICE, agent.methods()), echoing))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("serving", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1]))
