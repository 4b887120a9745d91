"""How many round trips a second the WebSocket door makes, beside a bare echo on the same server stack.

The server has a process of its own; the clients, of the library that agents would use, share another.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import uvloop
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect

from agent_gate import open_gate, tool
from agent_gate.config import AgentConfig, Config, GatewayConfig, RateLimitConfig, ServicesConfig, StorageConfig
from agent_gate.doors import websocket
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import Doorkeeper
from agent_gate.doors.identity import Identities
from agent_gate.doors.observe import Observation
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.hosts.server.memory import look_for_garbage_less_often
from agent_gate.hosts.server.sockets import Server
from bench.figure import Figure, at_least

CONNECTIONS = 64
WARM_UP_S, MEASURED_S, ROUNDS = 0.25, 0.5, 15
"""Short rounds that take turns, so that a machine that is busy now and then favours none of them."""
TOKEN = "token-of-the-bench-0123456789abcdef"
POLICY = {
    "rules": [
        {"pattern": "note.read(*)", "action": "allow"},
        {"pattern": "note.read(secret*)", "action": "deny"},
        *({"pattern": f"other.tool{number}(*)", "action": "ask"} for number in range(100)),
    ]
}


def figures(directory: Path) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {}
    with _served(directory) as port:
        for _ in range(ROUNDS):
            for name, path, message in _LOADS:
                rates.setdefault(name, []).append(_measure(port, path, message))
    medians = {name: sorted(found)[ROUNDS // 2] for name, found in rates.items()}
    for name in ("allowed", "denied"):
        told = f"WebSocket: {name} reads at 64 connections"
        yield at_least(told, medians[name], medians["echo"], "bare echo, Starlette on the same server", "/s", 0.25)


def _request(text: str) -> str:
    params = {"tool": "note.read", "args": {"text": text}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tool_request", "params": params})


_LOADS = (
    ("echo", "/echo", _request("hello")),
    ("allowed", "/ws", _request("hello")),
    ("denied", "/ws", _request("secret")),
)


def _measure(port: int, path: str, message: str) -> float:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_round_trips_each_second(port, path, message))


async def _round_trips_each_second(port: int, path: str, message: str) -> float:
    answered = 0

    async def ask() -> None:
        nonlocal answered
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(
            f"ws://127.0.0.1:{port}{path}", additional_headers=headers, proxy=None, compression=None
        ) as one:
            while True:
                await one.send(message)
                await one.recv()
                answered += 1

    asking = [asyncio.create_task(ask()) for _ in range(CONNECTIONS)]
    await asyncio.sleep(WARM_UP_S)
    before, started = answered, time.perf_counter()
    await asyncio.sleep(MEASURED_S)
    rate = (answered - before) / (time.perf_counter() - started)
    for task in asking:
        task.cancel()
    ended = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
    return rate


@contextmanager
def _served(directory: Path) -> Iterator[int]:
    """The server in a process of its own, and its port."""
    process = Popen([sys.executable, "-m", "bench.server", str(directory)], stdout=PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


@tool("note.read", effect="read", risk="low", cost=0)
async def read(text: str) -> dict[str, str]:
    """A tool that does nothing, so that only door and gate are measured."""
    return {"read": text}


async def echo(socket: WebSocket) -> None:
    """The least that an application of this stack does with a message."""
    await socket.accept()
    with suppress(WebSocketDisconnect):
        while True:
            await socket.send_text(await socket.receive_text())


async def _serve(directory: Path) -> None:
    config = Config(
        GatewayConfig("127.0.0.1", 0),
        None,
        None,
        ServicesConfig(),
        StorageConfig(),
        rate_limit=RateLimitConfig(10, 1_000_000_000),
        agents=(AgentConfig(TOKEN, "bench"),),
    )
    async with open_gate(POLICY, directory / "server.db", tools=[read]) as gate:
        context = ServerContext(gate, Approvals(gate), Mailbox(gate), Identities(config), config)
        observation = Observation(context)
        app = Starlette(routes=[*websocket.routes(context), WebSocketRoute("/echo", echo)])
        guarded = observation.around(Doorkeeper(app, "127.0.0.1", gate.count_refusal))
        look_for_garbage_less_often()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            os.write(1, f"{listener.getsockname()[1]}\n".encode())
            await Server(guarded).serve([listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(sys.argv[1])))
