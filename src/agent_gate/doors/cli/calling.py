"""Puts one call of the person at the terminal through the gate; where the policy lets them, they answer an ask."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from agent_gate import Agent, Approver, Gate, Outcome, load_policy, open_gate
from agent_gate.doors.cli import person, screen
from agent_gate.ledger.reader import open_reader
from agent_gate.model.approval import Question
from agent_gate.model.outcome import Status
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json


def call_here(policy_path: Path, db: Path, tool: str, args: Mapping[str, Json], project: str) -> Outcome:
    policy = load_policy(policy_path)
    with closing(open_reader(db)):
        pass  # a file of something else, or of another release, is refused before anything is made beside it
    return asyncio.run(_call(policy, db, tool, args, project))


async def _call(policy: Policy, db: Path, tool: str, args: Mapping[str, Json], project: str) -> Outcome:
    """Whoever holds policy and database may answer for every role; two approvers they are not."""
    who = Approver(person.name(), tuple(policy.roles))
    may_answer = policy.approvals_at_terminal and person.is_there()
    agent = Agent("local", projects=("*",))
    async with open_gate(policy, db, agent=agent, approvers=[who] if may_answer else []) as gate:
        outcome = await gate.call(tool, args, project=project, wait=not may_answer)
        if outcome.status is not Status.PENDING_APPROVAL:
            return outcome
        return await _answered(gate, outcome, who)


async def _answered(gate: Gate, outcome: Outcome, who: Approver) -> Outcome:
    found = await gate.ledger.question(outcome.call_id)
    if found is None:
        return outcome
    question = found[0]
    _show(question)
    approve = await asyncio.to_thread(person.says_yes, "Allow it?")
    await gate.answer(outcome.call_id, approve=approve, by=who, nonce=question.nonce)
    if approve and question.approvers_required > 1:
        return outcome
    return await gate.result(outcome.call_id) or outcome


def _show(question: Question) -> None:
    """All of it: what cannot be seen cannot be agreed to."""
    for signature in question.signatures:
        print(screen.paint("ask", stream=sys.stderr), screen.safe(signature), file=sys.stderr)
    print(f"  arguments  {screen.safe(screen.encoded(dict(question.args)))}", file=sys.stderr)
    for reason in question.reasons:
        said = reason.get("text") or reason.get("rule") or ""
        print(f"  {screen.safe(reason['layer'])}  {screen.safe(said)}", file=sys.stderr)
