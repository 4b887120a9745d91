"""Updates of every kind, whole and broken: none of them keeps people's answers from being heard."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.messengers.telegram.faults import Unreachable
from agent_gate.doors.messengers.telegram.reading import updates_in
from agent_gate.doors.messengers.telegram.updates import Command, Press
from tests.bot_api import CHAT_ID, BotApi
from tests.chats import Chat, a_chat
from tests.gates import HandClock, sender
from tests.updates import ANONYMOUS, CHANNEL, PERSON, WRONG, broken, kinds

KINDS = dict(kinds())
POISON = [
    "message without from",
    "press without from",
    "press of an anonymous admin",
    "message of an anonymous admin",
    "channel_post",
    "telepathy",
    "nothing",
]


async def test_a_press_is_heard_after_updates_of_every_kind(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    for content in KINDS.values():
        await chat.api.update(content)
    assert await chat.press(message, "Allow") == "Your yes is recorded."
    await chat.closed(call_id, "Outcome: success")
    assert acts == ["hi"]
    await chat.api.until(lambda: chat.api.unconfirmed == [])


@pytest.mark.parametrize("kind", ["message of a person", "press of a person", "press below a message that is gone"])
async def test_nor_does_any_field_that_is_missing_or_of_another_type(chat: Chat, kind: str) -> None:
    """Each goes the whole way, from the wire to the handling."""
    _, message = await chat.ask()
    for content in broken(KINDS[kind]):
        await chat.api.update(content)
    await chat.api.until(lambda: chat.api.unconfirmed == [])
    assert await chat.press(message, "Deny") == "Your no is recorded."
    assert chat.messenger.healthy()


@pytest.mark.parametrize("kind", POISON)
async def test_what_waited_from_before_a_restart_is_passed_over(
    tmp_path: Path, api: BotApi, clock: HandClock, kind: str
) -> None:
    async with a_chat(tmp_path, api, sender([]), clock=clock) as chat:
        call_id, message = await chat.ask()
    await api.update(KINDS[kind])
    await api.update({"callback_query": {"id": "x"}})
    async with a_chat(tmp_path, api, sender([]), clock=clock) as chat:
        assert await chat.press(message, "Allow") == "Your yes is recorded."
        await chat.closed(call_id, "Outcome: success")
        await api.until(lambda: api.unconfirmed == [])


@pytest.mark.parametrize("says", [wrong for wrong in WRONG if wrong != 0])
async def test_an_update_without_a_number_does_not_keep_others_from_being_heard(chat: Chat, says: Any) -> None:
    _, message = await chat.ask()
    await chat.api.update({}, says={"update_id": says})
    await chat.api.update(["no object at all"])
    assert await chat.press(message, "Deny") == "Your no is recorded."
    await chat.api.until(lambda: chat.api.unconfirmed == [])


@pytest.mark.parametrize("answer", [{}, "x", True, [{}], [1, "x"], [{"update_id": "1"}]])
async def test_an_answer_that_holds_no_updates_is_trouble_and_tried_again(chat: Chat, answer: Any) -> None:
    _, message = await chat.ask()
    chat.api.garble("getUpdates", answer)
    await chat.api.update({})
    await chat.api.until(lambda: chat.api.unconfirmed == [])
    assert await chat.press(message, "Deny") == "Your no is recorded."


async def test_who_hides_behind_the_group_or_a_channel_is_nobody(chat: Chat) -> None:
    """Even where the numbers of Telegram's stand-ins got onto the list."""
    press, text = KINDS["press of a person"]["callback_query"], KINDS["message of a person"]["message"]
    for said in (
        {"callback_query": {**press, "from": ANONYMOUS}},
        {"callback_query": {**press, "from": {**PERSON, "is_bot": True}}},
        {"message": {**text, "from": ANONYMOUS}},
        {"message": {**text, "sender_chat": CHANNEL}},
    ):
        assert updates_in([{"update_id": 1, **said}], "gate_bot") == [(1, None)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "update_id",
                    "message",
                    "callback_query",
                    "from",
                    "chat",
                    "id",
                    "date",
                    "text",
                    "message_id",
                    "data",
                    "is_bot",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(contents=st.lists(JSON, max_size=4), number=st.integers(0, 2**63 - 1))
def test_whatever_it_holds_each_numbered_update_is_counted_once_and_nothing_is_raised(
    contents: list[Any], number: int
) -> None:
    answer = [
        {**content, "update_id": number} if isinstance(content, dict) else {"update_id": number, "message": content}
        for content in contents
    ]
    found = updates_in(answer, "gate_bot")
    assert [each for each, _ in found] == [number] * len(answer)
    assert all(heard is None or isinstance(heard, Press | Command) for _, heard in found)


@given(answer=JSON)
def test_an_answer_is_read_or_is_trouble(answer: Any) -> None:
    with suppress(Unreachable):
        assert isinstance(updates_in(answer, "gate_bot"), list)


@pytest.mark.parametrize("kind", KINDS)
def test_no_broken_update_raises_and_only_people_are_heard(kind: str) -> None:
    for content in broken(KINDS[kind]):
        [(_, heard)] = updates_in([{"update_id": 5, **content}], "gate_bot")
        if heard is not None:
            assert type(heard.user_id) is int
            assert heard.user_id != ANONYMOUS["id"]


def test_what_is_whole_is_read_whole() -> None:
    said = [{"update_id": 1, **KINDS["message of a person"]}, {"update_id": 2, **KINDS["press of a person"]}]
    assert updates_in(said, "gate_bot") == [
        (1, Command(11, CHAT_ID, 7, "pending", "", 1_700_000_000.0)),
        (2, Press("callback-x", 11, CHAT_ID, 7, "x", has_buttons=False)),
    ]
