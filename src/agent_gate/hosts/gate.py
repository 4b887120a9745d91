"""The gate of a process: opened by its files, with the projects that they describe, and loaded again on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from agent_gate.app import open_gate
from agent_gate.config import Config
from agent_gate.configuration import Configuration
from agent_gate.gate.gate import Gate
from agent_gate.history.projects import Projects
from agent_gate.hosts.process import Process, Tell
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent
from agent_gate.model.errors import ConfigError, ToolError
from agent_gate.ports.watching import Notifier


@asynccontextmanager
async def opened(
    policy_path: Path,
    db: Path,
    configuration: Configuration | None,
    *,
    projects: Iterable[str],
    hide: Callable[[str], None],
    agent: Agent | None = None,
    approvers: Sequence[Approver] = (),
    notifier: Notifier | None = None,
) -> AsyncIterator[Gate]:
    """A gate with these projects of its configuration, for as long as the block runs."""
    async with open_gate(
        policy_path, db, config=configuration, agent=agent, approvers=approvers, notifier=notifier, hide=hide
    ) as gate:
        if configuration is not None:
            await _create(configuration.config, gate, projects)
        yield gate


def reload_by_signal(process: Process, gate: Gate) -> None:
    """Load the policy again at SIGHUP, as a changed file does by itself."""
    process.signals.reload_by(partial(_reload, gate, process.tell))


async def _reload(gate: Gate, tell: Tell) -> None:
    assert gate.reload_policy is not None, "a process is started with the file of its policy"
    in_force = await gate.reload_policy()
    text = "the policy was loaded again" if in_force else "the policy was not loaded again; the old one stays in force"
    tell("policy", text, {"loaded": in_force})


async def _create(config: Config, gate: Gate, names: Iterable[str]) -> None:
    """Create those that are described and not there yet; one that is there stays as it is."""
    projects = Projects(gate.ledger, gate.clock, gate.ids, "config")
    for name in names:
        described = config.projects.get(name)
        if described is None or await gate.ledger.head(name) is not None:
            continue
        try:
            await projects.create(name, dict(described.initial_state), described.state_schema)
        except ToolError as error:
            raise ConfigError(f"projects.{name}: {error.problem.detail}", suggestion=error.problem.suggestion) from None
