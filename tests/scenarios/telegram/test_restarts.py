"""What becomes of messages and buttons when the gate is away for a while, or an answer of Telegram's is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.model.committed import Committed
from agent_gate.model.work import Resolve, Work
from tests.bot_api import CHAT_ID, OTHER_CHAT_ID, BotApi
from tests.chats import Chat, a_chat, in_chat, telegram_config
from tests.gates import ANNA, HandClock, rows, sender, soon, until


async def test_an_open_question_keeps_its_message_and_its_buttons_across_a_restart(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        call_id, message = await chat.ask()
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        await chat.press(message, "Allow")
        await chat.closed(call_id, "Outcome: success")
        assert acts == ["hi"]
        assert api.called("sendMessage") == 1


async def test_a_question_that_ended_while_the_gate_was_away_gets_its_message_closed(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        expired, message = await chat.ask("late")
    clock.advance(901)
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        closed = await chat.closed(expired, "Expired at")
        assert not closed.buttons
        told = await chat.press(message, "Allow")
        assert "Expired at" in told
        assert "recorded" not in told
        assert acts == []


async def test_an_approval_that_nobody_can_perform_yet_does_not_say_that_it_was_performed(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        call_id, message = await chat.ask()
    nobody = replace(telegram_config(api.url), agents=())
    async with a_chat(tmp_path, api, sender(acts), clock=clock, config=nobody) as chat:
        await chat.press(message, "Allow")
        closed = await chat.closed(call_id, "Allowed by anna at")
        assert "\nNot performed yet.\n" in closed.text
        assert acts == []
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        await chat.closed(call_id, "Outcome: success")
        assert acts == ["hi"]


async def test_the_deadline_of_a_question_that_nobody_holds_closes_its_message(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    bounds = MessengerBounds(look_again_s=0.01, overdue_s=0.05)
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        call_id, _ = await chat.ask()
    nobody = replace(telegram_config(api.url), agents=())
    async with a_chat(tmp_path, api, sender(acts), clock=clock, config=nobody, bounds=bounds) as chat:
        clock.advance(901)
        await chat.closed(call_id, "Expired at 2026-03-04 12:15:00 UTC: no answer is recorded.")
        await until(lambda: rows(chat.gate, "SELECT * FROM question_messages") == [])


async def test_an_answer_on_its_way_when_the_deadline_passes_is_not_called_expired_for_good(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The yes was given in time, and is recorded after the deadline."""
    async with a_chat(tmp_path, api, sender(acts), clock=clock, bounds=MessengerBounds(look_again_s=0.01)) as chat:
        await _answer_late(chat, clock, acts, monkeypatch)


async def _answer_late(chat: Chat, clock: HandClock, acts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    call_id, _ = await chat.ask()
    let_go, recorded, commit = asyncio.Event(), asyncio.Event(), chat.gate.ledger.commit

    async def slow(work: Work) -> Committed:
        answer = work.find(Resolve)
        is_the_yes = answer is not None and answer.resolution == "approved"
        if answer:
            await (let_go if is_the_yes else recorded).wait()
        committed = await commit(work)
        if is_the_yes:
            recorded.set()
        return committed

    monkeypatch.setattr(chat.gate.ledger, "commit", slow)
    answer = asyncio.create_task(chat.context.approvals.answer(call_id, approve=True, by=ANNA))
    await asyncio.sleep(0.02)
    clock.advance(901)
    await chat.closed(call_id, "Expired at 2026-03-04 12:15:00 UTC: no answer is recorded.")
    let_go.set()
    await soon(answer)
    await chat.closed(call_id, "Outcome: success")
    assert acts == ["hi"]


async def test_a_message_whose_answer_was_lost_tells_the_truth_when_it_is_pressed(chat: Chat, acts: list[str]) -> None:
    chat.api.drop("sendMessage", done=True)
    call_id, lost = await chat.ask()
    await chat.api.until(lambda: chat.api.count(call_id) == 2)
    shown = await chat.api.message(call_id, 2)
    await chat.press(shown, "Deny")
    await chat.closed(call_id, "Denied by anna")

    assert "Denied by anna" in await chat.press(lost, "Allow")

    await chat.api.until(lambda: not any(message.buttons for message in chat.api.with_text(call_id)))
    assert acts == []


async def test_a_message_whose_answer_was_lost_can_be_answered_and_leads_to_the_other_one(
    chat: Chat, acts: list[str]
) -> None:
    chat.api.drop("sendMessage", done=True)
    call_id, lost = await chat.ask()
    shown = await chat.api.message(call_id, 2)

    assert await chat.press(lost, "Allow") == "Your yes is recorded."

    closed = await chat.closed(call_id, "Outcome: success")
    assert closed.message_id == shown.message_id
    await chat.api.until(lambda: not chat.api.messages[lost.message_id].buttons)
    assert acts == ["hi"]


async def test_after_a_move_to_another_chat_open_questions_are_shown_and_answered_there(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    async with a_chat(tmp_path, api, sender(acts), clock=clock) as chat:
        call_id, old = await chat.ask()
    async with a_chat(tmp_path, api, sender(acts), clock=clock, config=in_chat(api, OTHER_CHAT_ID)) as chat:
        new = await api.message(call_id, 2)
        assert (old.chat_id, new.chat_id) == (CHAT_ID, OTHER_CHAT_ID)
        assert await chat.press(old, "Allow") == "Answers are taken in another chat."
        await chat.press(new, "Allow")
        await chat.closed(call_id, "Outcome: success")
        assert acts == ["hi"]
