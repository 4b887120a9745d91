"""A request about which a person is asked, as it stands in the ledger: how it was answered, and what uses that up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from agent_gate.gate.progress import refusal, resolution_fields
from agent_gate.model.approval import Question
from agent_gate.model.charge import Charge
from agent_gate.model.entry import Entry
from agent_gate.model.errors import Problem
from agent_gate.model.record import answered, answered_at, answered_by, reserved_by
from agent_gate.model.record_judged import given_up, held_by
from agent_gate.model.work import Release, Resolve, TakeOver, Unhold, Work
from agent_gate.pipeline.hold import Resolution


@dataclass(frozen=True, slots=True)
class HeldRequest:
    question: Question
    how: str | None
    """Its resolution, once it has one."""
    approvers: tuple[str, ...]
    entries: Sequence[Entry]
    """All that is written down about it."""

    @property
    def resolution(self) -> Resolution:
        """The end of it; one without an answer has ended with its deadline."""
        last = next((entry for entry in reversed(self.entries) if entry.kind == "answered"), None)
        if self.how is None or last is None:
            return Resolution("expired", "", self.question.expires_at)
        by = ", ".join(self.approvers) if self.how == "approved" else answered_by(last)
        return Resolution(self.how, by, answered_at(last))

    @property
    def reserved(self) -> tuple[Charge, ...]:
        """Charges that the ledger already counts for it."""
        return reserved_by(self.entries)

    @property
    def too_late(self) -> Problem:
        """The reason why nothing comes of it after the deadline."""
        if self.how != "approved":
            return refusal(self.resolution)
        detail = f"`{self.resolution.by}` agreed, but the request did not come again in time"
        return Problem(1016, detail, "send it again after the approval", "hold")

    def used_up_by(self, work: Work) -> Work:
        """Refused where the question is not there any more: one answer serves one request."""
        call_id = self.question.call_id
        return replace(work, changes=(TakeOver(call_id, held_by(self.entries)), *work.changes, Unhold(call_id)))

    def ended(self, problem: Problem, now: float, salt: Callable[[], str]) -> Work:
        """Nothing comes of it any more, and what it had reserved is free."""
        question, told = self.question, resolution_fields(self.resolution)
        end = given_up(question, self.entries, problem, told, now, salt())
        releases = tuple(map(Release, self.reserved))
        work = Work(question.project, (end,), releases)
        if self.how is None:
            expired = answered(question, "expired", "", now, "", salt())
            resolves = Resolve(question.call_id, question.nonce, now, "expired")
            work = replace(work, entries=(expired, end), changes=(resolves, *releases))
        return self.used_up_by(work)
