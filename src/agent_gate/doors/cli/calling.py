"""Puts one call of the person at the terminal through the gate; where the policy lets them, they answer an ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from agent_gate import Agent, Outcome, load_policy, open_gate
from agent_gate.doors.cli.terminal import TerminalNotifier, may_answer
from agent_gate.ledger.reader import open_reader
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json


def call_here(policy_path: Path, db: Path, tool: str, args: Mapping[str, Json], project: str) -> Outcome:
    policy = load_policy(policy_path)
    with closing(open_reader(db)):
        pass  # a file of something else, or of another release, is refused before anything is made beside it
    return asyncio.run(_call(policy, policy_path, db, tool, args, project))


async def _call(
    policy: Policy, policy_path: Path, db: Path, tool: str, args: Mapping[str, Json], project: str
) -> Outcome:
    notifier = TerminalNotifier(policy) if may_answer(policy) else None
    # The owner of policy and database acts with every role that the policy knows.
    agent = Agent("local", tuple(policy.roles), projects=("*",))
    async with open_gate(policy, db, agent=agent, notifier=notifier, protected_files=[policy_path]) as gate:
        if notifier:
            notifier.gate = gate
        return await gate.call(tool, args, project=project)
