"""A press of a button on a phone: which phone, for which question, in time; then it is an answer like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_gate.doors.context import ServerContext
from agent_gate.doors.home_assistant.actions import PREFIX, Pressed, Seals, Verb, read
from agent_gate.doors.home_assistant.board import Board
from agent_gate.doors.home_assistant.notice import plain, render
from agent_gate.doors.home_assistant.phones import Phone
from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.tool import Json

_ACTION_CHARS_MAX, _USER_CHARS_MAX = 200, 64


@dataclass(frozen=True, slots=True)
class Press:
    action: str
    user_id: str
    """Whose connection the event came by, as the home says; empty where it does not."""

    @property
    def who(self) -> str:
        return f"home_assistant:{self.user_id or 'nobody'}"


@dataclass(frozen=True, slots=True)
class Told:
    """Who pressed, and what they are to be told; empty where the phone shows it anyhow."""

    phone: Phone
    call_id: str
    text: str = ""


def press_of(event: Mapping[str, Json]) -> Press | None:
    """What an event says; None where it is about no button of ours."""
    data, origin = event.get("data"), event.get("context")
    action = data.get("action") if isinstance(data, dict) else None
    if not isinstance(action, str) or not action.startswith(PREFIX):
        return None
    user_id = origin.get("user_id") if isinstance(origin, dict) else None
    return Press(action[:_ACTION_CHARS_MAX], user_id[:_USER_CHARS_MAX] if isinstance(user_id, str) else "")


class Answers:
    def __init__(self, context: ServerContext, phones: Sequence[Phone], board: Board) -> None:
        self._gate, self._approvals, self._phones, self._board = context.gate, context.approvals, phones, board
        self._seals = Seals(context.gate.secrets.keyed_hash)

    async def press(self, press: Press) -> Told | None:
        """None where nobody of ours pressed: that is counted, and nobody is told."""
        pressed = read(press.action)
        if pressed is None:
            self.turn_away(press, "no button of the gate's has this shape")
            return None
        found = await self._gate.ledger.question(pressed.call_id)
        question = found[0] if found else None
        phone = self._phone(pressed, question)
        if phone is None:
            self.turn_away(press, "the button is out of date or forged")
        elif phone.user_id and press.user_id != phone.user_id:
            self.turn_away(press, f"the phone of {phone.approver.id} is another user's of home assistant")
        elif question is not None and pressed.verb is Verb.ALLOW and not render(question).complete:
            self.turn_away(press, "what cannot be shown in full cannot be approved on a phone")
        else:
            return await self._answer(pressed, question, phone)
        return None

    def turn_away(self, press: Press, why: str) -> None:
        self._gate.count_refusal(press.who, Problem(6003, why, stage="hold"))

    def _phone(self, pressed: Pressed, question: Question | None) -> Phone | None:
        """The one that was given this button; all are compared, so that the time taken says nothing."""
        seal_of = digest(question) if question else self._board.digest_of(pressed.call_id)
        held = [phone for phone in self._phones if self._seals.hold(pressed, seal_of, phone)]
        return held[0] if held and seal_of else None

    async def _answer(self, pressed: Pressed, question: Question | None, phone: Phone) -> Told:
        """An answer that does not count is recorded by the desk."""
        try:
            unattended = await self._approvals.answer(
                pressed.call_id,
                approve=pressed.verb is Verb.ALLOW,
                by=phone.approver,
                nonce=question.nonce if question else "",
            )
        except GateError as error:
            return Told(phone, pressed.call_id, plain(f"Your answer does not count: {error.problem.detail}"))
        return Told(phone, pressed.call_id, plain(unattended))
