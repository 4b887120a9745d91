"""`agent-gate policy-agent`: the policy agent by itself, without a gate."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent_gate.chain.configured import registry_of
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.config import Config, GatewayConfig, PolicyAgentConfig, ServicesConfig, StorageConfig
from agent_gate.configuration import read_configuration
from agent_gate.doors.observe import Watchdog
from agent_gate.doors.policy_agent import serving
from agent_gate.doors.policy_agent.place import default_socket_path
from agent_gate.hosts import process
from agent_gate.hosts.process import Process, Tell
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import POOL


def settings_of(config_path: Path | None, socket_path: Path | None) -> Config:
    """Read the file, and take defaults where there is none; a path that is given by hand goes first."""
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    if config_path is not None:
        config = read_configuration(config_path, for_agents=False).config
    settings = config.policy_agent or PolicyAgentConfig(os.fspath(default_socket_path()))
    if socket_path is not None:
        settings = replace(settings, socket_path=os.fspath(socket_path))
    return replace(config, policy_agent=settings)


def run(config: Config, tell: Tell, log_level: str = "warning") -> None:
    """Serve until a signal ends it; `tell` says to whoever started it what happens."""
    process.run(partial(_serve, config), config, log_level, tell, ending="what runs is answered")


async def _serve(config: Config, here: Process) -> None:
    async with Watchdog().watching(), alone(config) as path:
        here.tell("serving", f"serving policies at {path}", {"socket": os.fspath(path)})
        await here.ended.wait()


@asynccontextmanager
async def alone(config: Config) -> AsyncIterator[Path]:
    """An agent with every policy that needs no gate, ours and those of other packages."""
    assert config.policy_agent is not None
    registry = registry_of(config.policies, SystemClock())
    executor = Executor(registry, POOL, Bounds.of(config.policy_agent))
    async with serving(config, registry, executor) as path:
        yield path
