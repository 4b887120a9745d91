"""A configuration for a gate that one command opens for itself."""

from __future__ import annotations

from pathlib import Path

from agent_gate.chain.configured import OUTBOUND
from agent_gate.configuration import Configuration, read_configuration
from agent_gate.model.errors import ConfigError


def used_by_a_command(path: Path) -> Configuration:
    """Read it; only the sections that are used here need be there, and one of them must."""
    configuration = read_configuration(path, for_agents=False)
    config = configuration.config
    if config.services.homeassistant is None and OUTBOUND not in config.chains:
        raise ConfigError(
            f"`{path}` has no services.homeassistant and no chains.{OUTBOUND}, and nothing else of it is used here",
            suggestion="add one of them, or leave out --config",
        )
    return configuration
