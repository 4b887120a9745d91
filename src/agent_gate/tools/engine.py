"""The core-engine document's permission engine: the rules alone, with nothing around them."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.permission import Permissions
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.policy.rules import RuleIndex
from agent_gate.tools.by_name import build_signatures

_NEUTRAL: Mapping[str, object] = {
    "state": {},
    "agent_id": "default",
    "roles": ["operator"],
    "project": "default",
    "mode": "assisted",
    "confirmed": False,
    "risk": "medium",
    "cost": 1,
    # There is no clock here; a condition that asks for the time cannot be evaluated, and so denies.
    "hour": None,
    "weekday": None,
}
"""The environment of conditions on a call that is nothing but a tool and its arguments."""


class PermissionEngine:
    """Judges calls by permission rules; where none speaks, a person is to be asked."""

    def __init__(self, permissions: Permissions) -> None:
        self._index = RuleIndex(permissions.rules, permissions.defaults)

    def evaluate(self, tool_name: str, args: Mapping[str, Json]) -> Decision:
        """The strictest answer over all signatures of the call; ValueError for malformed arguments."""
        strictest = Decision.ALLOW
        for signature in build_signatures(tool_name, args):
            match = self._index.lookup(signature, lambda: {**_NEUTRAL, "inputs": args, "tool": tool_name})
            decision = match.decision or Decision.ASK
            if decision is Decision.DENY:
                return decision
            if decision is Decision.ASK:
                strictest = decision
        return strictest
