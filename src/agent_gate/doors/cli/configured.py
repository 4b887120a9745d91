"""Gives a gate that one command opens for itself what a configuration says: its own files, and what its tools use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from agent_gate.chain.configured import OUTBOUND, check_chains
from agent_gate.config import Config, load_config
from agent_gate.model.errors import ConfigError
from agent_gate.resolve.ownership import named_by
from agent_gate.services.http.outbound import outbound_of
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import POOL


def given_by(path: Path) -> dict[str, Any]:
    """As `open_gate` takes it."""
    config = _used(path)
    named = named_by(path, config)
    return {
        "own_files": named.secret,
        "protected_files": named.protected,
        "approval_timeout_s": config.approval_timeout,
        "home_assistant": config.services.homeassistant,
        "outbound": outbound_of(config, POOL, SystemClock()),
    }


def _used(path: Path) -> Config:
    """Only the sections that are used here need be there, and one of them must."""
    config = load_config(path, for_agents=False, check=partial(check_chains, clock=SystemClock()))
    if config.services.homeassistant is None and OUTBOUND not in config.chains:
        raise ConfigError(
            f"`{path}` has no services.homeassistant and no chains.{OUTBOUND}, and nothing else of it is used here",
            suggestion="add one of them, or leave out --config",
        )
    return config
