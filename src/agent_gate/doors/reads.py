"""Reads at a door: an agent's is a call like any other, a person's is judged by role and counted."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.doors.context import ServerContext
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent, CallRequest, Facts, Presence
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.tool import Json, Mode
from agent_gate.policy import layers
from agent_gate.tools.gate import GATE_READ


def leave_to_read(
    agent: Agent,
    path: str,
    query: Mapping[str, Json] | None = None,
    *,
    project: str | None = None,
    presence: Presence | None = None,
) -> CallRequest:
    """The call that asks whether an agent may read what the gate keeps of its own; its success shows nothing yet."""
    args = {"path": path, "query": dict(query)} if query else {"path": path}
    return CallRequest(agent, GATE_READ.name, args, project or agent.first_project, presence=presence)


def look(context: ServerContext, approver: Approver, door: str, place: str) -> None:
    """Let a person look, and count it; GateError 1009 where none of their roles may."""
    judge = context.gate.judge
    facts = Facts(0.0, Mode.INTERACTIVE, approver.roles, False, judge.policy_hash)
    _, problem = layers.roles(judge.declared(GATE_READ), facts, judge.policy.roles)
    if problem is not None:
        refused = Problem(1009, f"`{approver.id}` has no role that may look at this", "give them one that may read")
        context.gate.count_refusal(approver.id, refused)
        raise GateError.of(refused)
    context.gate.observer.looked(door, place)
