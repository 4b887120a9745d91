"""Tools of the gate itself: leave to read its record, and to undo an earlier call."""

from __future__ import annotations

from agent_gate.model.tool import ArgumentKind, Effect, GuardedBy, Risk, ToolDeclaration
from agent_gate.policy.guards import GuardContext
from agent_gate.policy.guards.paths import RevertGuard
from agent_gate.tools.schemas import TEXT, object_schema


def _guard(_: None, context: GuardContext) -> RevertGuard:
    """A revert makes the calls of others, and has no section of its own."""
    return RevertGuard(context.files("fs.write"))


GATE_READ = ToolDeclaration(
    "gate.read",
    "Leave to read what the gate keeps of an agent's own calls; the door that asked for it shows it",
    object_schema("path", path={**TEXT, "description": "as below /api/v1"}, query={"type": "object"}),
    {"query": ArgumentKind.UNSIGNED},
    Effect.READ,
    Risk.LOW,
    0,
    closed_world=True,
)
GATE_REVERT = ToolDeclaration(
    "gate.revert",
    "Undo what one earlier call did, as far as that can be done",
    object_schema("call_id", call_id=TEXT),
    {"call_id": ArgumentKind.IDENTIFIER},
    Effect.WRITE,
    Risk.HIGH,
    1,
    guard=GuardedBy(_guard),
    closed_world=True,
)
