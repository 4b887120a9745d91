"""A press of a button: who, where, for which question, in time; then it is an answer like any other."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.doors.context import ServerContext
from agent_gate.doors.telegram.buttons import Pressed, Seals, Verb, read
from agent_gate.doors.telegram.endings import Ended, Open, standing
from agent_gate.doors.telegram.render import render
from agent_gate.doors.telegram.updates import Press
from agent_gate.model.approval import Approver, GrantTerms
from agent_gate.model.errors import GateError, Problem


@dataclass(frozen=True, slots=True)
class Notice:
    """What the one who pressed is told."""

    text: str
    counted: bool = False
    call_id: str = ""
    """The question that it was about, where there is one."""


class Answers:
    def __init__(self, context: ServerContext, chat_id: int) -> None:
        self._gate, self._approvals, self._identities = context.gate, context.approvals, context.identities
        self._chat_id = chat_id
        self._seals = Seals(context.gate.secrets.keyed_hash)

    async def press(self, press: Press) -> Notice:
        who = f"telegram:{press.user_id}"
        approver = self._identities.telegram_user(press.user_id)
        if approver is None:
            return self._turned_away(who, "You are not on the list of those who may answer here.")
        if press.chat_id != self._chat_id:
            return self._turned_away(who, "Answers are taken in another chat.")
        pressed = read(press.data)
        if pressed is None:
            return self._turned_away(who, "This button is none of mine.")
        try:
            return await self._answer(pressed, approver, who)
        except GateError as error:
            return await self._not_counted(pressed.call_id, error.problem)

    async def _answer(self, pressed: Pressed, approver: Approver, who: str) -> Notice:
        found = await self._gate.ledger.question(pressed.call_id)
        if found is not None and not self._seals.hold(pressed, found[0]):
            return self._turned_away(who, "This button is out of date or forged. Nothing was done.", pressed.call_id)
        if found is not None and pressed.verb is not Verb.DENY and not render(found[0]).complete:
            return self._turned_away(who, "What cannot be shown in full cannot be approved here.", pressed.call_id)
        unattended = await self._approvals.answer(
            pressed.call_id,
            approve=pressed.verb is not Verb.DENY,
            by=approver,
            nonce=found[0].nonce if found else "",
            grant=GrantTerms() if pressed.verb is Verb.GRANT else None,
        )
        thanks = await self._thanks(pressed)
        return Notice(f"{thanks} {unattended}".rstrip(), counted=True, call_id=pressed.call_id)

    async def _thanks(self, pressed: Pressed) -> str:
        if pressed.verb is Verb.DENY:
            return "Your no is recorded."
        now = await standing(pressed.call_id, self._gate.ledger, self._gate.clock)
        if isinstance(now, Open):
            return f"Your yes is recorded: {len(now.approved_by)} of {now.question.approvers_required}."
        if pressed.verb is Verb.GRANT:
            terms = GrantTerms()
            return f"Your yes is recorded, and for {terms.uses} more such calls within {terms.seconds // 60} minutes."
        return "Your yes is recorded."

    async def _not_counted(self, call_id: str, problem: Problem) -> Notice:
        """The desk has recorded it; a question that has ended says how."""
        now = await standing(call_id, self._gate.ledger, self._gate.clock)
        text = now.headline.partition("\n")[0] if isinstance(now, Ended) and now.about else problem.detail
        return Notice(f"Your answer does not count. {text}", call_id=call_id)

    def _turned_away(self, who: str, text: str, call_id: str = "") -> Notice:
        self._gate.count_refusal(who, Problem(6003, text, stage="hold"))
        return Notice(text, call_id=call_id)
