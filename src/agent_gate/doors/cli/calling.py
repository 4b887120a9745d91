"""Puts one call of the person at the terminal through the gate; where the policy lets them, they answer an ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import agent_gate
from agent_gate.config import load_policy
from agent_gate.doors.cli.terminal import TerminalNotifier, may_answer
from agent_gate.history.reader import open_reader
from agent_gate.model.call import Agent
from agent_gate.model.outcome import Outcome
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible_lines


def call_here(
    policy_path: Path, db: Path, tool: str, args: Mapping[str, Json], project: str, config: Path | None = None
) -> Outcome:
    policy, around = load_policy(policy_path), opened_with(config, policy_path)
    # A file of something else, or of another release, is refused before anything is made beside it.
    open_reader(db).close()
    return asyncio.run(_call(policy, around, db, tool, args, project))


def opened_with(config_path: Path | None, *protected: Path) -> dict[str, Any]:
    """Gather what a gate is opened with beside policy and ledger: its own files, what a configuration gives its tools.

    Of relative paths it says now what they mean.
    """
    _label_the_log()
    files = [path.absolute() for path in protected]
    if config_path is None:
        return {"protected_files": files}
    # Chains and their libraries take a fifth of a second, which only those pay who name a configuration.
    from agent_gate.doors.cli.configured import used_by_a_command  # noqa: PLC0415

    return {"config": used_by_a_command(config_path), "protected_files": files}


def _label_the_log() -> None:
    """Begin what the gate logs like the warnings of every other command: it reaches the terminal as it is."""
    if logging.lastResort:
        logging.lastResort.setFormatter(_Labelled("%(message)s"))


class _Labelled(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        lines, _ = visible_lines(super().format(record))
        return f"{record.levelname.lower()}: " + "\n".join(lines)


async def _call(
    policy: Policy, around: Mapping[str, Any], db: Path, tool: str, args: Mapping[str, Json], project: str
) -> Outcome:
    notifier = TerminalNotifier(policy) if may_answer(policy) else None
    # The owner of policy and database acts with every role that the policy knows.
    agent = Agent("local", tuple(policy.roles), projects=("*",))
    # By the package, which imports a gate and all its services only here: `state show` does without them.
    async with agent_gate.open_gate(policy, db, agent=agent, notifier=notifier, **around) as gate:
        if notifier:
            notifier.gate = gate
        return await gate.call(tool, args, project=project)
