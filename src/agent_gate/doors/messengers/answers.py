"""The one way in for answers by messenger: each must be sealed for the question as it stands, and shown in full."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.seal import SealedAnswer, Seals, Verb
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Approver, GrantTerms, Question
from agent_gate.model.errors import GateError, Problem

OUT_OF_DATE = "This button is out of date or forged. Nothing was done."
INCOMPLETE = "What cannot be shown in full cannot be approved here."


@dataclass(frozen=True, slots=True)
class Counted:
    unattended: str
    """Outcome of a yes where the process that holds the call is gone."""


@dataclass(frozen=True, slots=True)
class NotCounted:
    """An answer of somebody known, which the gate has recorded as refused."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Something that is no answer of ours, which is counted at the door."""

    problem: Problem


Given: TypeAlias = Counted | NotCounted | TurnedAway


class Answers:
    """The gate's side of answers: who answers the messenger has found out; whether they may, the gate checks."""

    def __init__(
        self,
        context: ServerContext,
        seals: Seals,
        is_complete: Callable[[Question], bool],
        remembered: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`remembered` finds the digest of a question that was shown and is not in the ledger any more."""
        self._gate, self._approvals, self._seals = context.gate, context.approvals, seals
        self._is_complete, self._remembered = is_complete, remembered

    async def holder_of(self, answer: SealedAnswer, holders: Iterable[str]) -> str | None:
        """The one that was given this answer; all are compared, so that the time taken says nothing."""
        question = await self._question(answer.call_id)
        sealed_for = digest(question) if question else self._remembered(answer.call_id)
        held = [holder for holder in holders if self._seals.hold(answer, sealed_for, holder)]
        return held[0] if held and sealed_for else None

    async def give(self, answer: SealedAnswer, by: Approver, who: str, *, holder: str = "", note: str = "") -> Given:
        """`who` it is as far as the channel knows, for what is rejected; the gate refuses what has ended."""
        question = await self._question(answer.call_id)
        if question is not None and not self._seals.hold(answer, digest(question), holder):
            return self.turn_away(who, OUT_OF_DATE)
        if question is not None and answer.verb is not Verb.DENY and not self._is_complete(question):
            return self.turn_away(who, INCOMPLETE)
        try:
            unattended = await self._approvals.answer(
                answer.call_id,
                approve=answer.verb is not Verb.DENY,
                by=by,
                nonce=question.nonce if question else "",
                note=note,
                grant=GrantTerms() if answer.verb is Verb.GRANT else None,
            )
        except GateError as error:
            return NotCounted(error.problem)
        return Counted(unattended)

    def turn_away(self, who: str, text: str) -> TurnedAway:
        problem = Problem(6003, text, stage="hold")
        self._gate.count_refusal(who, problem)
        return TurnedAway(problem)

    async def _question(self, call_id: str) -> Question | None:
        found = await self._gate.ledger.question(call_id)
        return found[0] if found else None
