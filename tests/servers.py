"""Servers for tests: every door of a gate behind a real socket, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agent_gate.config import (
    AgentConfig,
    ApproverConfig,
    Config,
    GatewayConfig,
    RateLimitConfig,
    ServicesConfig,
    StorageConfig,
)
from agent_gate.doors.bounds import DoorBounds
from agent_gate.doors.context import ServerContext
from agent_gate.doors.identity import Identities
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.hosts.server import build_app
from agent_gate.hosts.server.sockets import Server, SocketBounds
from agent_gate.model.call import Agent
from tests.gates import ALLOW_ALL, a_gate, soon, until

BOT_TOKEN, CLERK_TOKEN = "token-of-the-bot-0123456789abcdef", "token-of-the-clerk-0123456789abcdef"
"""Of two agents; `bot` is owned by carol, `clerk` by nobody."""
ANNA_TOKEN, BOB_TOKEN = "token-of-anna-0123456789abcdef", "token-of-bob-0123456789abcdef"
"""Of two approvers: an admin and an operator."""
CAROL_TOKEN = "token-of-carol-0123456789abcdef"


def a_config(**changes: Any) -> Config:
    """Two agents and three approvers on a port of 127.0.0.1, and no limits that a test would run into by itself."""
    config = Config(
        gateway=GatewayConfig("127.0.0.1", 0),
        agent=None,
        messenger=None,
        services=ServicesConfig(),
        storage=StorageConfig(),
        rate_limit=RateLimitConfig(max_pending_approvals=1_000, max_requests_per_minute=1_000_000),
        agents=(
            AgentConfig(BOT_TOKEN, "bot", owner="carol"),
            AgentConfig(CLERK_TOKEN, "clerk"),
        ),
        approvers=(
            ApproverConfig("anna", ANNA_TOKEN, roles=("admin",)),
            ApproverConfig("bob", BOB_TOKEN),
            ApproverConfig("carol", CAROL_TOKEN, roles=("admin",)),
        ),
    )
    return replace(config, **changes)


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    context: ServerContext
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"{self.scheme.replace('http', 'ws')}://127.0.0.1:{self.port}/ws"

    @property
    def gate(self) -> Gate:
        return self.context.gate

    def agent(self, name: str = "bot") -> Agent:
        return self.context.identities.agents[name]


def a_context_of(gate: Gate, config: Config, bounds: DoorBounds | None = None) -> ServerContext:
    identities = Identities(config)
    mailbox = Mailbox(gate, identities.agents)
    return ServerContext(gate, Approvals(gate, mailbox), mailbox, identities, config, bounds=bounds or DoorBounds())


@asynccontextmanager
async def a_context(
    directory: Path, policy: Any = ALLOW_ALL, *tools: Any, config: Config | None = None, **options: Any
) -> AsyncIterator[ServerContext]:
    """The doors' context without a server; `options` are those of `a_gate`, and `bounds`."""
    config, name, bounds = config or a_config(), options.pop("name", "gate.db"), options.pop("bounds", None)
    approvers = tuple(Identities(config).approvers.values())
    async with a_gate(directory, policy, *tools, **{"approvers": approvers, **options}, name=name) as gate:
        context = a_context_of(gate, config, bounds)
        yield context
        context.close()


@asynccontextmanager
async def a_server(
    directory: Path,
    policy: Any = ALLOW_ALL,
    *tools: Any,
    config: Config | None = None,
    app: Callable[[ServerContext], ASGIApp] = build_app,
    tls: ssl.SSLContext | None = None,
    socket_bounds: SocketBounds | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """A context with all its doors open on a free port; `options` are those of `a_context`."""
    config = config or a_config()
    with socket.create_server(("127.0.0.1", config.gateway.port)) as listener:
        # asyncio does so itself, but not for sockets that were made without naming their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        config = replace(config, gateway=replace(config.gateway, port=port))
        async with (
            a_context(directory, policy, *tools, config=config, **options) as context,
            listening(app(context), listener, tls, socket_bounds),
        ):
            yield Served(context, port, "https" if tls else "http")


@asynccontextmanager
async def listening(
    app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None, bounds: SocketBounds | None = None
) -> AsyncIterator[Server]:
    """Serve an application on a socket that is already bound, for as long as the block runs."""
    server = Server(app, tls, bounds)
    task = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            await asyncio.sleep(0.002)
            if task.done():
                task.result()
        yield server
    finally:
        server.should_exit = True
        await asyncio.wait({task})


async def left_alone(server: Served) -> None:
    """Until the server knows that nobody follows any of its calls."""
    await until(lambda: all(progress.is_left_alone for progress in server.gate._under_way))


class RawAgent:
    """A connection that says exactly what a test wants it to say."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._ids = itertools.count(1)

    async def send(self, message: Any) -> None:
        """Text and bytes as they are, anything else as JSON."""
        await self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request and do not wait for its answer."""
        number = next(self._ids)
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def receive(self) -> Any:
        return json.loads(await soon(self.connection.recv()))

    async def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request that is the only one under way: its result, or its error."""
        number = await self.begin(method, **params)
        answer = await self.receive()
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == number
        return answer.get("result", answer.get("error"))

    async def closed(self) -> int | None:
        """The code with which the server ends it; whatever else it says before is not looked at."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await soon(self.connection.recv())
        return self.connection.close_code


@asynccontextmanager
async def a_raw_agent(server: Served, token: str | None = BOT_TOKEN, **options: Any) -> AsyncIterator[RawAgent]:
    """Connected, and unless `token` is None with the first message sent and answered."""
    async with connect(server.ws_url, proxy=None, max_size=None, **options) as connection:
        agent = RawAgent(connection)
        if token is not None:
            greeting = await agent.ask("auth", token=token)
            assert greeting.get("status") == "authenticated", greeting
        yield agent


CONFIG = f"""
gateway: {{host: 127.0.0.1, port: 0}}
agents: [{{id: bot, token: {BOT_TOKEN}}}, {{id: clerk, token: {CLERK_TOKEN}, projects: [home]}}]
approvers: [{{id: anna, token: {ANNA_TOKEN}, roles: [admin]}}]
projects: {{home: {{initial_state: {{rooms: 3}}}}}}
rate_limit: {{max_pending_approvals: 100, max_requests_per_minute: 100000}}
"""


START_S = 60.0
"""How long a test waits for a new process on a machine that may be busy."""


class Process:
    """`agent-gate serve` as a user runs it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []

    async def told(self, event: str) -> dict[str, Any]:
        """What it says next of this event."""
        assert self.process.stdout is not None
        while line := await asyncio.wait_for(self.process.stdout.readline(), START_S):
            self.said.append(json.loads(line))
            if self.said[-1]["event"] == event:
                return self.said[-1]
        assert self.process.stderr is not None
        raise AssertionError((await self.process.stderr.read()).decode())

    async def ended(self) -> tuple[int, str]:
        """The exit code and all that it said on standard error."""
        assert self.process.stderr is not None
        said = await asyncio.wait_for(self.process.stderr.read(), START_S)
        return await soon(self.process.wait()), said.decode()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@asynccontextmanager
async def a_process(directory: Path, *options: str, policy: Any = None, config: str = CONFIG) -> AsyncIterator[Process]:
    """It begins with the files that a test gives, or with those that are there."""
    if policy is not None:
        (directory / "policy.yaml").write_text(json.dumps(policy))
        (directory / "config.yaml").write_text(config)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agent_gate", "serve", "--json", *options,
        cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
