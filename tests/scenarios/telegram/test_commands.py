"""Commands in the chat."""

from __future__ import annotations

import pytest

from tests.chats import ANNA_ID, BOB_ID, STRANGER_ID, Chat
from tests.gates import ANNA


async def test_pending_shows_open_questions_again_and_the_old_message_loses_its_buttons(
    chat: Chat, acts: list[str]
) -> None:
    call_id, old = await chat.ask()
    await chat.api.say("/pending@gate_bot", user_id=BOB_ID)
    await chat.api.message("1 open; the first 1 follow:\n- mail.send of bot, until 2026-03-04 12:15:00 UTC")
    await chat.api.until(lambda: chat.api.messages[old.message_id].text == "Shown again below.")
    (again,) = chat.api.with_text(call_id)
    await chat.press(again, "Allow")
    await chat.closed(call_id, "Outcome: success")
    assert acts == ["hi"]


async def test_pending_says_that_nothing_is_open(chat: Chat) -> None:
    await chat.api.say("/pending", user_id=ANNA_ID)
    await chat.api.message("No question is open.")


async def test_an_admin_pauses_and_resumes_in_the_chat(chat: Chat) -> None:
    await chat.api.say("/pause too much noise", user_id=ANNA_ID)
    await chat.api.message("Paused: every call is denied until /resume.")
    assert (await chat.call({"text": "hi"})).error.code == 1017  # type: ignore[union-attr]
    await chat.api.say("/resume", user_id=ANNA_ID)
    await chat.api.message("Resumed.")
    assert not await chat.context.approvals.paused()


async def test_commands_of_others_and_elsewhere_are_not_answered(chat: Chat) -> None:
    await chat.api.say("/pause", user_id=STRANGER_ID)
    await chat.api.say("/pause", user_id=ANNA_ID, chat_id=ANNA_ID)
    await chat.api.say("/pause@other_bot", user_id=ANNA_ID)
    await chat.api.say("/pause", user_id=BOB_ID)
    await chat.api.message("Only an admin may /pause.")
    assert chat.api.count() == 1
    assert not await chat.context.approvals.paused()
    await chat.refused_at_door(f"telegram:{STRANGER_ID}")


async def test_who_sets_the_bot_up_reads_the_numbers_in_the_log(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        await chat.api.say("/pending", user_id=STRANGER_ID, chat_id=-77)
    await chat.api.say("/pending", user_id=ANNA_ID)
    await chat.api.message("No question is open.")
    told = [record.getMessage() for record in caplog.records if "was not heard" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"a command of user {STRANGER_ID} in chat -77 was not heard: compare messenger.telegram")


async def test_an_old_command_is_not_obeyed(chat: Chat) -> None:
    await chat.context.approvals.pause(ANNA)
    await chat.api.say("/resume", user_id=ANNA_ID, ago_s=301)
    await chat.api.message("came too late")
    assert await chat.context.approvals.paused()


async def test_what_has_no_effect_says_so(chat: Chat) -> None:
    await chat.api.say("/resume", user_id=ANNA_ID)
    await chat.api.message("The gate is not paused.")
    await chat.api.say("/pause", user_id=ANNA_ID)
    await chat.api.say("/pause", user_id=ANNA_ID)
    await chat.api.message("The gate is paused already.")


async def test_help_is_given_and_other_words_are_left_alone(chat: Chat) -> None:
    await chat.api.say("/unheard_of", user_id=ANNA_ID)
    await chat.api.say("good morning", user_id=ANNA_ID)
    await chat.api.say("/help", user_id=ANNA_ID)
    await chat.api.message("/pending shows the open questions again; /pause denies every call until /resume.")
    assert chat.api.count() == 1


async def test_a_question_is_shown_again_also_where_the_old_message_is_gone(chat: Chat) -> None:
    call_id, old = await chat.ask()
    del chat.api.messages[old.message_id]
    chat.api.drop("sendMessage", times=2)  # the reply, which is lost, and the first attempt to show it again
    await chat.context.approvals.pause(ANNA)
    await chat.api.say("/pending", user_id=ANNA_ID)
    again = await chat.api.message(call_id)
    assert "Deny" in again.buttons
    await chat.api.say("/pending", user_id=ANNA_ID)
    await chat.api.message("The gate is paused: every call is denied.\n1 open")
