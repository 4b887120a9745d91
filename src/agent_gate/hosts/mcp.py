"""`agent-gate mcp`: one gate for one agent, over standard input and output."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_gate.config import Config, load_policy
from agent_gate.configuration import Configuration, read_configuration
from agent_gate.doors.identity import Identities
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.mcp.lines import Lines
from agent_gate.doors.mcp.stdio import Conversation, protocol_pipes
from agent_gate.gate.gate import Gate
from agent_gate.hosts import process
from agent_gate.hosts.gate import opened, reload_by_signal
from agent_gate.hosts.process import Process
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import MCP_WAIT_S
from agent_gate.model.call import Agent
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import DEFAULT_LEDGER


@dataclass(frozen=True, slots=True)
class Settings:
    policy_path: Path
    db: Path
    agent: Agent
    approvers: tuple[Approver, ...] = ()
    """People who can be asked; without any, what would be asked about is denied."""
    project: str = "default"
    wait_s: float = MCP_WAIT_S
    configuration: Configuration | None = None


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
    configuration = read_configuration(config_path, for_agents=False)
    config = configuration.config
    identities = Identities(config)
    agent = _agent_of(identities, agent_id) if config.agents else _unnamed(config, agent_id)
    return Settings(
        policy_path,
        db or Path(config.storage.path),
        agent,
        _approvers_of(config, identities),
        project or agent.first_project,
        wait_s,
        configuration,
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
    """Make the agent where the configuration names none: the same as without a configuration, within its limits."""
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
    with protocol_pipes() as (reading, writing):
        config = settings.configuration.config if settings.configuration else None
        process.run(partial(_serve, settings, reading, writing), config, log_level)


async def _serve(settings: Settings, reading: int, writing: int, here: Process) -> None:
    async with gate_of(settings, here.hide) as gate:
        reload_by_signal(here, gate)
        calls = Calls(gate, settings.agent, settings.project, settings.wait_s)
        await calls.look_back()
        door = McpDoor(calls, settings.approvers)
        await Conversation(door, Lines(reading, writing), here.ended).hold()


def gate_of(settings: Settings, hide: Callable[[str], None]) -> AbstractAsyncContextManager[Gate]:
    """Questions are put and answered through the ledger: nobody is told of them from here."""
    return opened(
        settings.policy_path,
        settings.db,
        settings.configuration,
        projects=(settings.project,),
        hide=hide,
        agent=settings.agent,
        approvers=settings.approvers,
    )
