"""One server: its context, its doors on the socket, and its end in good order."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from socket import socket
from typing import Any

from agent_gate.doors.context import ServerContext
from agent_gate.doors.identity import Identities
from agent_gate.doors.observe import Observation
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.mailbox import Mailbox
from agent_gate.gate.traffic import Traffic
from agent_gate.hosts import process
from agent_gate.hosts.gate import opened, reload_by_signal
from agent_gate.hosts.process import Process, Tell
from agent_gate.hosts.server.app import build_app
from agent_gate.hosts.server.chains import Chains
from agent_gate.hosts.server.memory import look_for_garbage_less_often, tidying
from agent_gate.hosts.server.messengers import messengers_of
from agent_gate.hosts.server.sockets import Server
from agent_gate.hosts.server.starting import Settings, bound_socket
from agent_gate.model.bounds import DRAIN_S
from agent_gate.ports.services import Introduced, Service


def run(settings: Settings, tell: Tell, log_level: str = "warning") -> None:
    """Serve until a signal ends it; `tell` says to whoever started it what happens."""
    _allow_many_sockets()
    with bound_socket(settings.config.gateway) as listener:
        process.run(partial(_serve, settings, listener), settings.config, log_level, tell)


async def _serve(settings: Settings, listener: socket, here: Process) -> None:
    async with _context(settings, here) as context:
        observation = Observation(context)
        taken = await context.mailbox.take_over_held(context.identities.agents)
        server = Server(build_app(context, observation), settings.tls)
        serving = asyncio.create_task(server.serve([listener]))
        _announce(here.tell, settings, listener, taken, context.gate.services)
        ended = asyncio.create_task(here.ended.wait())
        look_for_garbage_less_often()
        async with observation.watching(), tidying():
            await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        await _wind_down(context, server, serving)


async def _wind_down(context: ServerContext, server: Server, serving: asyncio.Task[None]) -> None:
    """Doors refuse what is new and tell who is connected; what runs is settled; answers are taken; then it ends."""
    context.closing.set()
    server.stop_listening()
    await context.gate.close()
    answering = server.server_state.tasks
    if answering:
        await asyncio.wait(answering, timeout=DRAIN_S)
    server.should_exit = True
    await serving


@asynccontextmanager
async def _context(settings: Settings, here: Process) -> AsyncIterator[ServerContext]:
    config = settings.config
    identities = Identities(config)
    messengers = messengers_of(config)
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(
            opened(
                settings.policy_path,
                settings.db,
                settings.configuration,
                projects=config.projects,
                hide=here.hide,
                approvers=tuple(identities.approvers.values()),
                notifier=messengers,
            )
        )
        reload_by_signal(here, gate)
        mailbox = Mailbox(gate, identities.agents)
        context = ServerContext(gate, Approvals(gate, mailbox), mailbox, identities, config)
        stack.callback(context.close)
        if messengers is not None:
            await stack.enter_async_context(messengers.at_work(context))
        traffic = await stack.enter_async_context(Traffic(gate, identities.agents))
        if config.chains or config.policy_agent:
            chains = Chains(config, traffic)
            context.api_chain = chains.api()
            await stack.enter_async_context(chains.policy_agent())
        yield context


def _announce(tell: Tell, settings: Settings, listener: socket, taken: int, services: Sequence[Service]) -> None:
    host, port = settings.config.gateway.host, listener.getsockname()[1]
    secure, place = "s" if settings.tls else "", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    fields: dict[str, Any] = {
        "url": f"http{secure}://{place}",
        "console": f"http{secure}://{place}/console",
        "agents": f"ws{secure}://{place}/ws",
        "taken_over": taken,
    }
    if settings.config.policy_agent:
        fields["policies"] = settings.config.policy_agent.socket_path
    introductions = [service.introduction for service in services if isinstance(service, Introduced)]
    fields |= {one.label: one.fields for one in introductions}
    lines = [
        f"serving on {fields['url']}",
        f"  people  {fields['console']}  (with a token of `approvers` in {settings.configuration.path.name})",
        *(f"  {one.label:<7} {one.text}" for one in introductions),
        f"  agents  {fields['agents']}",
        *([f"  proxies {fields['policies']}"] if "policies" in fields else []),
        *([f"  calls taken over from an earlier server: {taken}"] if taken else []),
    ]
    tell("serving", "\n".join(lines), fields)


def _allow_many_sockets() -> None:
    """Each agent is a file to the kernel, and what a shell allows by itself is soon used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
