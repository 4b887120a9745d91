"""A press of a button: who, where, for which question; then it is an answer like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.answers import Answers, Counted, NotCounted, TurnedAway
from agent_gate.doors.messengers.seal import SealedAnswer, Verb, read
from agent_gate.doors.messengers.status import Ended, Open, status_of
from agent_gate.doors.messengers.telegram.updates import Press
from agent_gate.model.approval import GrantTerms
from agent_gate.model.errors import Problem


@dataclass(frozen=True, slots=True)
class Notice:
    """Told to the one who pressed."""

    text: str
    counted: bool = False
    call_id: str = ""
    """The question that it was about, where there is one."""


class Presses:
    def __init__(self, context: ServerContext, answers: Answers, chat_id: int) -> None:
        self._gate, self._identities = context.gate, context.identities
        self._answers, self._chat_id = answers, chat_id

    async def answer(self, press: Press) -> Notice:
        who = f"telegram:{press.user_id}"
        approver = self._identities.telegram_user(press.user_id)
        if approver is None:
            return self._turned_away(who, "You are not on the list of those who may answer here.")
        if press.chat_id != self._chat_id:
            return self._turned_away(who, "Answers are taken in another chat.")
        answer = read(press.data)
        if answer is None:
            return self._turned_away(who, "This button is none of mine.")
        match given := await self._answers.give(answer, approver, who):
            case Counted():
                text = f"{await self._thanks(answer)} {given.unattended}".rstrip()
                return Notice(text, counted=True, call_id=answer.call_id)
            case NotCounted():
                return await self._not_counted(answer.call_id, given.problem)
            case TurnedAway():
                return Notice(given.problem.detail, call_id=answer.call_id)
            case _:
                assert_never(given)

    async def _thanks(self, answer: SealedAnswer) -> str:
        if answer.verb is Verb.DENY:
            return "Your no is recorded."
        now = await status_of(answer.call_id, self._gate.ledger, self._gate.clock)
        if isinstance(now, Open):
            return f"Your yes is recorded: {len(now.approved_by)} of {now.question.approvers_required}."
        if answer.verb is Verb.GRANT:
            terms = GrantTerms()
            return f"Your yes is recorded, and for {terms.uses} more such calls within {terms.seconds // 60} minutes."
        return "Your yes is recorded."

    async def _not_counted(self, call_id: str, problem: Problem) -> Notice:
        """Told how a question ended that has ended."""
        now = await status_of(call_id, self._gate.ledger, self._gate.clock)
        text = now.headline.partition("\n")[0] if isinstance(now, Ended) and now.about else problem.detail
        return Notice(f"Your answer does not count. {text}", call_id=call_id)

    def _turned_away(self, who: str, text: str) -> Notice:
        return Notice(self._answers.turn_away(who, text).problem.detail)
