"""Looks at config.yaml: whether a server could be started with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agent_gate.doors.cli.health import FAIL, OK, Row
from agent_gate.doors.cli.screen import count
from agent_gate.model.errors import ConfigError


def config_rows(named: Path | None) -> Iterator[Row]:
    """A row for each mistake; none where no file is named and none is there."""
    path = named or Path("config.yaml")
    if named is None and not path.exists():
        return
    from agent_gate.chain.configured import check_chains
    from agent_gate.config import load_config
    from agent_gate.system.clock import SystemClock

    try:
        config = load_config(path, check=partial(check_chains, clock=SystemClock()))
    except ConfigError as error:
        yield from (Row("config", FAIL, problem, "mend it: no server starts with it") for problem in error.problems)
        return
    chains = f", chains {', '.join(config.chains)}" if config.chains else ""
    people = f"{count(len(config.agents), 'agent')}, {count(len(config.approvers), 'approver')}"
    yield Row("config", OK, f"{path}: {people}{chains}")
