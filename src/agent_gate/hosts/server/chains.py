"""The chains of a server: for its own doors, and for the proxy that asks its policy agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_gate.chain.configured import API, ConfiguredChain, configured, refs_of, registry_of
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.config import Config
from agent_gate.model.bounds import BLOCKING_THREADS_MAX
from agent_gate.ports.judging import RequestJudge
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import BlockingPool


class Chains:
    """The policies that may ask the gate, and what runs them."""

    def __init__(self, config: Config, judge: RequestJudge) -> None:
        self._config = config
        self._registry = registry_of(config.policies, SystemClock(), judge)
        self._executor = Executor(self._registry, BlockingPool(BLOCKING_THREADS_MAX), Bounds.of(config.policy_agent))

    def api(self) -> ConfiguredChain | None:
        steps = self._config.chains.get(API)
        return None if steps is None else configured(API, refs_of(steps), self._registry, self._executor)

    @asynccontextmanager
    async def policy_agent(self) -> AsyncIterator[Path | None]:
        """Serves while the block runs, where the configuration has one; the path of its socket."""
        if self._config.policy_agent is None:
            yield None
            return
        # 200 ms (gRPC) that servers without one need not pay.
        from agent_gate.doors.policy_agent import serving  # noqa: PLC0415

        async with serving(self._config, self._registry, self._executor) as path:
            yield path
