"""One server from its start to its end in good order."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from socket import socket
from typing import TYPE_CHECKING

import uvloop

from agent_gate.app import Workspace, open_gate
from agent_gate.config import Config, load_config
from agent_gate.doors.context import ServerContext
from agent_gate.doors.identity import Identities
from agent_gate.doors.observe import Observation, configure_logs, secrets_of
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.gate.policy_watch import PolicyWatch
from agent_gate.gate.traffic import Traffic
from agent_gate.history.projects import Projects
from agent_gate.hosts.server.app import build_app
from agent_gate.hosts.server.chains import Chains, outbound_of
from agent_gate.hosts.server.memory import look_for_garbage_less_often, tidying
from agent_gate.hosts.server.messengers import messengers_of
from agent_gate.hosts.server.signals import Signals
from agent_gate.hosts.server.sockets import Server
from agent_gate.hosts.server.starting import Settings, bound_socket
from agent_gate.model.errors import ConfigError, ToolError
from agent_gate.model.limits import DRAIN_S
from agent_gate.model.tool import Json
from agent_gate.resolve.surroundings import real_directory

if TYPE_CHECKING:
    from agent_gate.services.home_assistant.health import HomeHealth

Tell = Callable[[str, str, Mapping[str, Json]], None]
"""What happens: a word for it, a line for people, and the same for machines."""


def run(settings: Settings, tell: Tell, log_level: str = "warning") -> None:
    """Serve until a signal ends it; `tell` says to whoever started it what happens."""
    redaction = configure_logs(log_level, secrets_of(settings.config))
    _allow_many_sockets()
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with bound_socket(settings.config.gateway) as listener, runner:
        runner.run(serve(settings, listener, tell, redaction.hide))


async def serve(settings: Settings, listener: socket, tell: Tell, hide: Callable[[str], None]) -> None:
    async with _context(settings, hide) as context:
        watch = _policy_watch(settings)
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = asyncio.create_task(_reload(watch, context.gate, tell))
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        def ending() -> None:
            tell("ending", "ending: what runs is settled, nothing more is taken in; once more ends at once", {})

        observation = Observation(context)
        with Signals(ending, reload) as signals:
            taken = await context.mailbox.take_over_held(context.identities.agents)
            server = Server(build_app(context, observation), settings.tls)
            serving = asyncio.create_task(server.serve([listener]))
            _announce(tell, settings, listener, taken, _homes(context.gate))
            ended = asyncio.create_task(signals.end.wait())
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
async def _context(settings: Settings, hide: Callable[[str], None]) -> AsyncIterator[ServerContext]:
    config = settings.config
    identities = Identities(config)
    messengers = messengers_of(config)
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(
            open_gate(
                settings.policy_path,
                settings.db,
                approvers=tuple(identities.approvers.values()),
                notifier=messengers,
                approval_timeout_s=config.approval_timeout,
                own_files=settings.own_files.secret,
                protected_files=settings.own_files.protected,
                outbound=outbound_of(config),
                home_assistant=config.services.homeassistant,
                home_assistant_now=lambda: load_config(settings.config_path).services.homeassistant,
                hide=hide,
            )
        )
        await _create_projects(config, gate)
        mailbox = Mailbox(gate, identities.agents)
        context = ServerContext(gate, Approvals(gate, mailbox), mailbox, identities, config)
        stack.callback(context.close)
        if messengers is not None:
            await stack.enter_async_context(messengers.at_work(context))
        approvals = await stack.enter_async_context(Traffic(gate, identities.agents))
        if config.chains or config.policy_agent:
            chains = Chains(config, approvals)
            context.api_chain = chains.api()
            await stack.enter_async_context(chains.policy_agent())
        yield context


async def _create_projects(config: Config, gate: Gate) -> None:
    """Those of the configuration that are not there yet; one that is there stays as it is."""
    projects = Projects(gate.ledger, gate.clock, gate.ids, "config")
    for name, project in config.projects.items():
        if await gate.ledger.head(name) is None:
            try:
                await projects.create(name, dict(project.initial_state), project.state_schema)
            except ToolError as error:
                raise ConfigError(
                    f"projects.{name}: {error.problem.detail}", suggestion=error.problem.suggestion
                ) from None


def _policy_watch(settings: Settings) -> PolicyWatch:
    workspace = Workspace(real_directory(None), settings.db, settings.policy_path, *settings.own_files)
    return PolicyWatch(settings.policy_path, workspace.judge)


async def _reload(watch: PolicyWatch, gate: Gate, tell: Tell) -> None:
    in_force = await watch.reload(gate)
    text = "the policy was loaded again" if in_force else "the policy was not loaded again; the old one stays in force"
    tell("policy", text, {"loaded": in_force})


def _homes(gate: Gate) -> list[HomeHealth]:
    """Of which there is one at most; its service is not known here, because its libraries take time to load."""
    return [service.health for service in gate.services if hasattr(service, "health")]


def _announce(tell: Tell, settings: Settings, listener: socket, taken: int, homes: Sequence[HomeHealth]) -> None:
    host, port = settings.config.gateway.host, listener.getsockname()[1]
    secure, place = "s" if settings.tls else "", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    fields = {
        "url": f"http{secure}://{place}",
        "console": f"http{secure}://{place}/console",
        "agents": f"ws{secure}://{place}/ws",
        "taken_over": taken,
    }
    if settings.config.policy_agent:
        fields["policies"] = settings.config.policy_agent.socket_path
    for home in homes:
        fields["home"] = home.to_json()
    lines = [
        f"serving on {fields['url']}",
        f"  people  {fields['console']}  (with a token of `approvers` in {settings.config_path.name})",
        *(f"  home    {home.told}" for home in homes),
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
