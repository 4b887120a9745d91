"""`agent-gate policy-agent`: the policy agent by itself, without a gate."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvloop

from agent_gate.chain.configured import check_chains, registry_of
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.config import Config, GatewayConfig, PolicyAgentConfig, ServicesConfig, StorageConfig, load_config
from agent_gate.doors.observe import Watchdog, configure_logs, secrets_of
from agent_gate.doors.policy_agent import serving
from agent_gate.doors.policy_agent.place import default_socket_path
from agent_gate.model.tool import Json
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import POOL

Tell = Callable[[str, str, Mapping[str, Json]], None]
"""What happens: a word for it, a line for people, and the same for machines."""


def settings_of(config_path: Path | None, socket_path: Path | None) -> Config:
    """What the file says, and defaults where there is none; a path that is given by hand goes first."""
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    if config_path is not None:
        config = load_config(config_path, for_agents=False, check=partial(check_chains, clock=SystemClock()))
    settings = config.policy_agent or PolicyAgentConfig(os.fspath(default_socket_path()))
    if socket_path is not None:
        settings = replace(settings, socket_path=os.fspath(socket_path))
    return replace(config, policy_agent=settings)


def run(config: Config, tell: Tell, log_level: str = "warning") -> None:
    """Serve until a signal ends it; `tell` says to whoever started it what happens."""
    configure_logs(log_level, secrets_of(config))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, tell))


async def _serve(config: Config, tell: Tell) -> None:
    ended = asyncio.Event()

    def end(number: int) -> None:
        if ended.is_set():
            os._exit(128 + number)
        ended.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    async with Watchdog().watching(), alone(config) as path:
        tell("serving", f"serving policies at {path}", {"socket": os.fspath(path)})
        await ended.wait()
        tell("ending", "ending: what runs is answered, nothing more is taken in; once more ends at once", {})


@asynccontextmanager
async def alone(config: Config) -> AsyncIterator[Path]:
    """An agent with every policy that needs no gate, ours and those of other packages."""
    assert config.policy_agent is not None
    registry = registry_of(config.policies, SystemClock())
    executor = Executor(registry, POOL, Bounds.of(config.policy_agent))
    async with serving(config, registry, executor) as path:
        yield path
