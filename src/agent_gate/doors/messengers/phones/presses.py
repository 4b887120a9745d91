"""A press of a button on a phone: which phone, for which question; then it is an answer like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from agent_gate.doors.messengers.answers import Answers, Counted, NotCounted, TurnedAway
from agent_gate.doors.messengers.phones.actions import PREFIX, read
from agent_gate.doors.messengers.phones.notice import plain
from agent_gate.doors.messengers.phones.phones import Phone
from agent_gate.model.tool import Json

_ACTION_CHARS_MAX, _USER_CHARS_MAX = 200, 64


@dataclass(frozen=True, slots=True)
class Press:
    action: str
    user_id: str
    """The user whose connection the event came by, as the home says; empty where it does not."""

    @property
    def who(self) -> str:
        return f"home_assistant:{self.user_id or 'nobody'}"


@dataclass(frozen=True, slots=True)
class Told:
    """The person who pressed, and what they are to be told; empty where the phone shows it anyhow."""

    phone: Phone
    call_id: str
    text: str = ""


def press_of(event: Mapping[str, Json]) -> Press | None:
    """The press that an event tells of; None where it is about no button of ours."""
    data, origin = event.get("data"), event.get("context")
    action = data.get("action") if isinstance(data, dict) else None
    if not isinstance(action, str) or not action.startswith(PREFIX):
        return None
    user_id = origin.get("user_id") if isinstance(origin, dict) else None
    return Press(action[:_ACTION_CHARS_MAX], user_id[:_USER_CHARS_MAX] if isinstance(user_id, str) else "")


class Presses:
    def __init__(self, answers: Answers, phones: Sequence[Phone]) -> None:
        self._answers, self._phones = answers, {phone.holder: phone for phone in phones}

    async def answer(self, press: Press) -> Told | None:
        """None where nobody of ours pressed: that is counted, and nobody is told."""
        answer = read(press.action)
        if answer is None:
            self.turn_away(press, "no button of the gate's has this shape")
            return None
        holder = await self._answers.holder_of(answer, self._phones)
        if holder is None:
            self.turn_away(press, "the button is out of date or forged")
            return None
        phone = self._phones[holder]
        if phone.user_id and press.user_id != phone.user_id:
            self.turn_away(press, f"the phone of {phone.approver.id} is another user's of home assistant")
            return None
        match given := await self._answers.give(answer, phone.approver, press.who, holder=holder):
            case Counted():
                return Told(phone, answer.call_id, plain(given.unattended))
            case NotCounted():
                text = f"Your answer does not count: {given.problem.detail}"
                return Told(phone, answer.call_id, plain(text))
            case TurnedAway():
                return None
            case _:
                assert_never(given)

    def turn_away(self, press: Press, why: str) -> None:
        self._answers.turn_away(press.who, why)
