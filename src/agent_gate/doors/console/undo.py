"""Calls that an approver makes from the console: undoing is a call like any other."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.doors.console.frame import Visit
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json


async def submit_for(visit: Visit, tool: str, args: Mapping[str, Json], project: str) -> Outcome:
    """In the approver's own name and roles; being its owner, the approver may not answer a question about it."""
    approver = visit.approver
    agent = Agent(f"approver:{approver.id}", approver.roles, ("*",), owner=approver.id)
    return await visit.context.gate.submit(CallRequest(agent, tool, args, project, confirmed=True, wait=False))


def tell_outcome(visit: Visit, outcome: Outcome, done: str) -> None:
    if outcome.status is Status.SUCCESS:
        visit.tell(f"{done}.", call_id=outcome.call_id)
    elif outcome.status is Status.PENDING_APPROVAL:
        visit.tell("Another person must agree: the question is in the inbox.", "waits", outcome.call_id)
    elif outcome.error is not None:
        visit.tell(str(outcome.error), "refused", outcome.call_id)
    else:
        visit.tell(f"It ended as {outcome.status.value}.", "refused", outcome.call_id)
