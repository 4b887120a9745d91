"""Telegram that is slow, down, flooded, or set up wrongly."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate import ConfigError
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.telegram.adapter import TelegramAdapter
from tests.bot_api import TOKEN, BotApi
from tests.chats import ANNA_ID, Chat, a_chat, in_chat, telegram_config, with_token
from tests.gates import ANNA, QUICK_GATE, rows, sender, soon, until


async def test_flood_limits_are_waited_out_to_the_second(chat: Chat) -> None:
    chat.api.fail("sendMessage", 429, "Too Many Requests: retry after 7", retry_after=7)
    call_id, message = await chat.ask()
    chat.api.fail("editMessageText", 429, "Too Many Requests: retry after 9", times=2, retry_after=9)
    await chat.press(message, "Deny")
    await chat.closed(call_id, "Denied by anna")
    assert [pause for pause in chat.pauses.taken_s if pause in (7, 9)] == [7, 9, 9]
    assert len(chat.api.edits) == 1


async def test_a_question_that_is_asked_while_telegram_is_away_is_shown_when_it_is_back(
    chat: Chat, acts: list[str]
) -> None:
    await chat.api.go_down()
    outcome = await soon(chat.call({"text": "hi"}, wait=False))
    await until(lambda: "Telegram cannot be reached" in chat.messenger.trouble)
    assert not chat.messenger.healthy()

    chat.api.is_down = False
    message = await chat.api.message(outcome.call_id)
    await until(chat.messenger.healthy)

    await chat.press(message, "Allow")
    await chat.closed(outcome.call_id, "Outcome: success")
    assert acts == ["hi"]


async def test_what_ended_while_telegram_was_away_is_not_left_open(chat: Chat) -> None:
    await chat.api.go_down()
    outcome = await soon(chat.call({"text": "hi"}, wait=False))
    await chat.context.approvals.answer(outcome.call_id, approve=False, by=ANNA)
    await until(lambda: "Telegram cannot be reached" in chat.messenger.trouble)
    chat.api.is_down = False
    await chat.ask("another")
    await chat.api.until(lambda: not any(message.buttons for message in chat.api.with_text(outcome.call_id)))


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_errors_of_telegram_itself_are_tried_again(chat: Chat, status: int) -> None:
    chat.api.fail("sendMessage", status, "Internal", times=3)
    await chat.ask()
    assert chat.api.called("sendMessage") == 4


async def test_a_message_that_says_it_already_counts_as_edited(chat: Chat) -> None:
    """The answer to the edit got lost: the second attempt changes nothing."""
    call_id, message = await chat.ask()
    chat.api.drop("editMessageText", done=True)
    await chat.press(message, "Deny")
    await chat.closed(call_id, "Denied by anna")
    await until(lambda: rows(chat.gate, "SELECT * FROM question_messages") == [])
    assert chat.api.called("editMessageText") == 2


@pytest.mark.parametrize("gone", [True, False])
async def test_where_a_message_cannot_be_edited_a_reply_says_it(chat: Chat, gone: bool) -> None:
    call_id, message = await chat.ask()
    if gone:
        del chat.api.messages[message.message_id]
    else:
        chat.api.messages[message.message_id] = replace(message, editable=False)
    await chat.press(message, "Deny")
    reply = await chat.closed(call_id, "Denied by anna")
    assert reply.reply_to == message.message_id


async def test_that_another_process_hears_the_updates_is_reported(chat: Chat) -> None:
    chat.api.fail("getUpdates", 409, "Conflict: terminated by other getUpdates request", times=10_000)
    await chat.api.say("hello", user_id=ANNA_ID)
    await until(lambda: "somebody else hears this bot's updates: stop the other" in chat.messenger.trouble)
    assert not chat.messenger.healthy()


async def test_two_messengers_of_one_bot_notice_each_other(tmp_path: Path, chat: Chat) -> None:
    (tmp_path / "other").mkdir()
    async with a_chat(tmp_path / "other", chat.api) as other:
        await until(lambda: "somebody else" in chat.messenger.trouble + other.messenger.trouble)


async def test_a_wrong_token_is_reported_and_seen_nowhere(
    tmp_path: Path, api: BotApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_chat(tmp_path, api, config=with_token(api, "99:wrong-secret/?x")) as chat:
        await until(lambda: "does not know this bot" in chat.messenger.trouble)
        assert not chat.messenger.healthy()
    assert "wrong-secret" not in caplog.text


async def test_the_token_is_in_no_log_and_no_error(
    chat: Chat, caplog: pytest.LogCaptureFixture, acts: list[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    _, message = await chat.ask()
    await chat.press(message, "Allow")
    await chat.api.go_down()
    await until(lambda: not chat.messenger.healthy())
    assert "HTTP Request" in caplog.text
    assert TOKEN.partition(":")[2] not in caplog.text + chat.messenger.trouble + repr(chat.messenger)


async def test_a_wrong_chat_is_reported(tmp_path: Path, api: BotApi) -> None:
    async with a_chat(tmp_path, api, sender([]), config=in_chat(api, -1)) as chat:
        await chat.call({"text": "hi"}, wait=False)
        await until(lambda: "check messenger.telegram.chat_id" in chat.messenger.trouble)


async def test_a_group_that_has_moved_is_reported_with_its_new_number(chat: Chat) -> None:
    chat.api.fail("sendMessage", 400, "Bad Request: group upgraded", times=10_000, migrate_to_chat_id=-100999)
    await chat.call({"text": "hi"}, wait=False)
    await until(lambda: "set messenger.telegram.chat_id to -100999" in chat.messenger.trouble)


async def test_an_answer_that_makes_no_sense_is_survived(chat: Chat, acts: list[str]) -> None:
    chat.api.garble("getUpdates", [{"update_id": 1, "callback_query": {"id": 7}}])
    chat.api.garble("sendMessage", ["?"])
    call_id, message = await chat.ask()
    await chat.press(message, "Allow")
    await chat.closed(call_id, "Outcome: success")
    assert acts == ["hi"]


async def test_presses_count_also_where_no_notice_can_be_sent(tmp_path: Path, api: BotApi, acts: list[str]) -> None:
    async with a_chat(tmp_path, api, sender(acts), limits={"notices_max": 0}) as chat:
        call_id, message = await chat.ask()
        await chat.api.press(message, "Allow", user_id=ANNA_ID)
        await chat.closed(call_id, "Outcome: success")
        assert chat.api.called("answerCallbackQuery") == 0
    assert acts == ["hi"]


async def test_telegram_that_hangs_delays_no_call(tmp_path: Path, acts: list[str]) -> None:
    patient, bounds = replace(QUICK_GATE, notify_timeout_s=3_600), MessengerBounds(settle_s=0.1)
    async with (
        _deaf() as url,
        a_chat(
            tmp_path, BotApi(), sender(acts), config=telegram_config(url), bounds=bounds, gate_bounds=patient
        ) as chat,
    ):
        call = asyncio.create_task(chat.call({"text": "hi"}))
        await until(lambda: rows(chat.gate, "SELECT * FROM pending_requests"))
        (question,) = await chat.gate.ledger.questions()
        await chat.context.approvals.answer(question.call_id, approve=True, by=ANNA)
        assert (await soon(call)).status.value == "success"


async def test_more_questions_than_the_chat_takes_follow_as_others_end(
    tmp_path: Path, api: BotApi, acts: list[str]
) -> None:
    limits, bounds = {"questions_max": 2}, MessengerBounds(waiting_max=2)
    async with a_chat(tmp_path, api, sender(acts), limits=limits, bounds=bounds) as chat:
        for number in range(6):
            await chat.call({"text": f"text{number}"}, wait=False)
        while len(acts) < 6:
            await api.until(lambda: len(acts) == 6 or any(message.buttons for message in api.messages.values()))
            shown = [message for message in api.messages.values() if message.buttons]
            assert len(shown) <= 2
            for message in shown:
                await chat.press(message, "Allow")
            await api.until(lambda: api.count("Outcome: success") == len(acts))
        assert sorted(acts) == [f"text{number}" for number in range(6)]


async def test_without_the_package_the_configuration_is_refused(monkeypatch: pytest.MonkeyPatch, api: BotApi) -> None:
    monkeypatch.setitem(__import__("sys").modules, "agent_gate.doors.messengers.telegram.bot", None)
    config = telegram_config(api.url)
    assert config.messenger is not None
    assert config.messenger.telegram is not None
    with pytest.raises(ConfigError, match="agent-gate\\[telegram\\]"):
        TelegramAdapter(config.messenger.telegram)


@asynccontextmanager
async def _deaf() -> AsyncIterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
