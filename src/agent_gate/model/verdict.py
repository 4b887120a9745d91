"""The answer of judgement: allow, ask or deny, with every reason and what would change it."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from agent_gate.model.errors import Problem
from agent_gate.model.word import Word


class Decision(Word):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


ALLOW, ASK = Decision.ALLOW, Decision.ASK
"""For what every call passes."""


class Reason(Struct, frozen=True):
    """One layer's answer; `decision` None means the layer had nothing to say."""

    layer: str
    decision: Decision | None = None
    rule: str = ""
    text: str = ""

    def to_json(self) -> dict[str, str]:
        fields = {"layer": self.layer}
        if self.rule:
            fields["rule"] = self.rule
        if self.text:
            fields["text"] = self.text
        return fields

    def to_trace(self) -> dict[str, str]:
        return {**self.to_json(), "answer": self.decision.value if self.decision else "nothing"}


class Requirement(Struct, frozen=True):
    """People who must agree before an ask becomes an act."""

    approver_roles: tuple[str, ...] = ()
    """Each of them must have all of these."""
    approvers_required: int = 1


class Verdict(Struct, frozen=True, dict=True):
    decision: Decision
    trace: tuple[Reason, ...]
    """Every layer's answer in the order in which they were asked."""
    problem: Problem | None = None
    """For a deny: the code, and the smallest change that would flip it where that is known."""
    requirement: Requirement = Requirement()

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The answers that carried the decision."""
        return tuple(reason for reason in self.trace if reason.decision is self.decision)

    @cached_property
    def recorded_reasons(self) -> list[dict[str, str]]:
        """As entries tell them; many calls share a verdict."""
        return [reason.to_json() for reason in self.reasons]
