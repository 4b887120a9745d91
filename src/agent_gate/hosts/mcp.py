"""`agent-gate mcp`: one gate for one agent, over standard input and output."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from agent_gate.app import Workspace, open_gate
from agent_gate.chain.configured import check_chains
from agent_gate.config import Config, HomeAssistantConfig, load_config, load_policy
from agent_gate.doors.identity import Identities
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.mcp.lines import Lines
from agent_gate.doors.mcp.stdio import Conversation, protocol_pipes
from agent_gate.doors.observe import configure_logs, secrets_of
from agent_gate.gate.gate import Gate
from agent_gate.gate.policy_watch import PolicyWatch
from agent_gate.history.projects import Projects
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import DEFAULT_LEDGER
from agent_gate.model.limits import APPROVAL_TIMEOUT_S, MCP_WAIT_S
from agent_gate.resolve.ownership import Named, named_by
from agent_gate.resolve.surroundings import real_directory
from agent_gate.services.http.outbound import outbound_of
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import POOL


@dataclass(frozen=True, slots=True)
class Settings:
    policy_path: Path
    db: Path
    agent: Agent
    approvers: tuple[Approver, ...] = ()
    """Who can be asked; without any, what would be asked about is denied."""
    project: str = "default"
    wait_s: float = MCP_WAIT_S
    config: Config | None = None
    config_path: Path | None = None

    @property
    def own_files(self) -> Named:
        """Files of this start that no tool may read, and those that none may write."""
        return named_by(self.config_path, self.config)


def settings_of(
    policy_path: Path,
    db: Path | None,
    config_path: Path | None,
    agent_id: str | None,
    project: str | None,
    wait_s: float,
) -> Settings:
    """The files, read and checked; ConfigError where they do not say who the agent is."""
    load_policy(policy_path)
    if config_path is None:
        agent = Agent(agent_id or _own_name(), projects=("*",))
        return Settings(policy_path, db or Path(DEFAULT_LEDGER), agent, project=project or "default", wait_s=wait_s)
    config = load_config(config_path, for_agents=False, check=partial(check_chains, clock=SystemClock()))
    identities = Identities(config)
    agent = _agent_of(identities, agent_id) if config.agents else _unnamed(config, agent_id)
    return Settings(
        policy_path,
        db or Path(config.storage.path),
        agent,
        _approvers_of(config, identities),
        project or agent.first_project,
        wait_s,
        config,
        config_path,
    )


def _own_name() -> str:
    """By user id: an environment variable could claim anything."""
    try:
        return f"mcp:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"mcp:{os.getuid()}"


def _agent_of(identities: Identities, agent_id: str | None) -> Agent:
    names = ", ".join(f"`{name}`" for name in identities.agents)
    if agent_id is not None:
        if agent_id not in identities.agents:
            raise ConfigError(f"agents: there is no agent `{agent_id}`", suggestion=f"name one of {names}")
        return identities.agents[agent_id]
    if len(identities.agents) > 1:
        raise ConfigError("agents: which of them speaks here is not said", suggestion=f"name one by --agent: {names}")
    return next(iter(identities.agents.values()))


def _unnamed(config: Config, agent_id: str | None) -> Agent:
    """Who speaks where the configuration names no agents: the same as without one, within its limits."""
    limits = config.rate_limit
    return Agent(
        agent_id or _own_name(),
        projects=("*",),
        requests_per_minute=limits.max_requests_per_minute,
        max_pending_approvals=limits.max_pending_approvals,
    )


def _approvers_of(config: Config, identities: Identities) -> tuple[Approver, ...]:
    """Everybody who can answer at a server on the same ledger."""
    telegrams = [one.telegram for one in config.every_messenger if one.telegram]
    users = (identities.telegram_user(user) for telegram in telegrams for user in telegram.allowed_users)
    everybody = {approver.id: approver for approver in (*identities.approvers.values(), *filter(None, users))}
    return tuple(everybody.values())


def run(settings: Settings, log_level: str = "warning") -> None:
    """Serve the client that started this process, until it closes its end or a signal comes."""
    redaction = configure_logs(log_level, secrets_of(settings.config) if settings.config else ())
    with protocol_pipes() as (reading, writing), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, reading, writing, redaction.hide))


async def _serve(settings: Settings, reading: int, writing: int, hide: Callable[[str], None]) -> None:
    ended = asyncio.Event()
    _end_by_signals(ended)
    async with gate_of(settings, hide) as gate:
        _reload_by_signal(settings, gate)
        calls = Calls(gate, settings.agent, settings.project, settings.wait_s)
        await calls.look_back()
        door = McpDoor(calls, settings.approvers)
        await Conversation(door, Lines(reading, writing), ended).hold()


def _end_by_signals(ended: asyncio.Event) -> None:
    """The first signal ends it in good order, the second at once."""
    signals = 0

    def end(number: int) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(128 + number)
        ended.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)


def _reload_by_signal(settings: Settings, gate: Gate) -> None:
    """SIGHUP loads the policy again, as a changed file does by itself."""
    workspace = Workspace(real_directory(None), settings.db, settings.policy_path, *settings.own_files)
    watch = PolicyWatch(settings.policy_path, workspace.judge)
    reloads: set[asyncio.Task[bool]] = set()

    def reload() -> None:
        task = asyncio.create_task(watch.reload(gate))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


@asynccontextmanager
async def gate_of(settings: Settings, hide: Callable[[str], None]) -> AsyncIterator[Gate]:
    """Questions are put and answered through the ledger: nobody is told of them from here."""
    config = settings.config
    async with open_gate(
        settings.policy_path,
        settings.db,
        agent=settings.agent,
        approvers=settings.approvers,
        approval_timeout_s=config.approval_timeout if config else APPROVAL_TIMEOUT_S,
        own_files=settings.own_files.secret,
        protected_files=settings.own_files.protected,
        outbound=outbound_of(config, POOL, SystemClock()) if config else None,
        home_assistant=config.services.homeassistant if config else None,
        home_assistant_now=partial(_home_now, settings.config_path) if settings.config_path else None,
        hide=hide,
    ) as gate:
        if config is not None:
            await _create_project(config, gate, settings.project)
        yield gate


def _home_now(config_path: Path) -> HomeAssistantConfig | None:
    return load_config(config_path, for_agents=False).services.homeassistant


async def _create_project(config: Config, gate: Gate, name: str) -> None:
    """As the configuration describes it; one that is there stays as it is."""
    described = config.projects.get(name)
    if described is None or await gate.ledger.head(name) is not None:
        return
    projects = Projects(gate.ledger, gate.clock, gate.ids, "config")
    await projects.create(name, dict(described.initial_state), described.state_schema)
