"""Puts one call of the person at the terminal through the gate; where the policy lets them, they answer an ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from agent_gate import Agent, Outcome, load_policy, open_gate
from agent_gate.config import HomeAssistantConfig, load_config
from agent_gate.doors.cli.terminal import TerminalNotifier, may_answer
from agent_gate.ledger.reader import open_reader
from agent_gate.model.errors import ConfigError
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json


def call_here(
    policy_path: Path, db: Path, tool: str, args: Mapping[str, Json], project: str, config: Path | None = None
) -> Outcome:
    policy, home = load_policy(policy_path), home_of(config) if config else None
    with closing(open_reader(db)):
        pass  # a file of something else, or of another release, is refused before anything is made beside it
    files = Files([config] if config else [], [policy_path])
    return asyncio.run(_call(policy, files, db, tool, args, project, home))


class Files(NamedTuple):
    """Of the gate itself: those that no tool may read, and those that none may write."""

    secret: Sequence[Path]
    protected: Sequence[Path]


def home_of(config: Path) -> HomeAssistantConfig:
    """The home that a configuration names; the rest of it is a server's."""
    home = load_config(config, for_agents=False).services.homeassistant
    if home is None:
        raise ConfigError(f"`{config}` has no services.homeassistant", suggestion="add its url, or leave out --config")
    return home


async def _call(
    policy: Policy,
    files: Files,
    db: Path,
    tool: str,
    args: Mapping[str, Json],
    project: str,
    home: HomeAssistantConfig | None,
) -> Outcome:
    notifier = TerminalNotifier(policy) if may_answer(policy) else None
    # The owner of policy and database acts with every role that the policy knows.
    agent = Agent("local", tuple(policy.roles), projects=("*",))
    async with open_gate(
        policy,
        db,
        agent=agent,
        notifier=notifier,
        own_files=files.secret,
        protected_files=files.protected,
        home_assistant=home,
    ) as gate:
        if notifier:
            notifier.gate = gate
        return await gate.call(tool, args, project=project)
