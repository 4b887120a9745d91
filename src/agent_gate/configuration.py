"""A configuration as processes use it: read from its file with its chains checked, and what a gate is given of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_gate.chain.configured import check_chains
from agent_gate.config import Config, load_config
from agent_gate.model.bounds import BLOCKING_THREADS_MAX
from agent_gate.resolve.ownership import Named, named_by
from agent_gate.services.http.outbound import Outbound, outbound_of
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import BlockingPool


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, and the file that they stand in."""

    path: Path
    """Absolute, like the names of `own_files`: the directory of the process may change later."""
    config: Config
    own_files: Named
    """Files of this start that no tool may read, and those that none may write."""
    for_agents: bool = True
    """False: nobody connects by a token, so the file need not say who may."""

    def outbound(self) -> Outbound | None:
        """The chain that requests of `http.get` go through, with threads of its own: no tool keeps it waiting."""
        return outbound_of(self.config, BlockingPool(BLOCKING_THREADS_MAX), SystemClock())

    def read_again(self) -> Config:
        """Read the file as it is now: a token may have been replaced in it."""
        return load_config(self.path, for_agents=self.for_agents)


def read_configuration(path: Path, *, for_agents: bool = True) -> Configuration:
    """Read and check the file, its chains included; ConfigError with all that is wrong in it."""
    config = load_config(path, for_agents=for_agents, check=partial(check_chains, clock=SystemClock()))
    return Configuration(path.absolute(), config, named_by(path, config), for_agents)
