"""A standing grant: a person's yes to the same call again, for a time and a number of uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_gate.model.approval import Approver
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Requirement


@dataclass(frozen=True, slots=True)
class Grant:
    grant_id: str
    project: str
    agent_id: str
    tool: str
    signatures: tuple[str, ...]
    key: str
    """The exact signatures and the values of the sensitive arguments, as one hash."""
    given_by: str
    roles: tuple[str, ...]
    """Of the giver: a call that needs another role is not covered."""
    call_id: str
    """The call whose question was answered with this grant."""
    created_at: float
    expires_at: float
    uses: int
    uses_left: int

    def covers(self, requirement: Requirement) -> bool:
        giver = Approver(self.given_by, self.roles)
        return requirement.approvers_required <= 1 and all(map(giver.has_role, requirement.approver_roles))

    def to_json(self) -> dict[str, Any]:
        return {
            "grant_id": self.grant_id,
            "project": self.project,
            "agent_id": self.agent_id,
            "tool": self.tool,
            "signatures": list(self.signatures),
            "given_by": self.given_by,
            "call_id": self.call_id,
            "created_at": iso(self.created_at),
            "expires_at": iso(self.expires_at),
            "uses": self.uses,
            "uses_left": self.uses_left,
        }


def grant_key(tool: str, signatures: Sequence[str], args: Mapping[str, Json], sensitive: Sequence[str]) -> str:
    """Key that a grant is bound to; `args` are the recorded ones, in which a secret stands as its keyed hash."""
    values = {name: args[name] for name in sorted(sensitive) if name in args}
    return sha256_hex(canonical([tool, list(signatures), values]))
