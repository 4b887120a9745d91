"""Questions in Telegram, and who answers them how: the real client library against our own Bot API."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate import load_policy
from agent_gate.doors.messengers.seal import Seals, Verb
from agent_gate.doors.shapes import digest
from agent_gate.model.call import CallRequest
from agent_gate.policy.judge import Judge
from tests.bot_api import BotApi
from tests.chats import ANNA_ID, BOB_ID, DORA_ID, STRANGER_ID, Chat, a_chat, telegram_config
from tests.gates import ANNA, ASK_ALL, HandClock, rows, sender, soon, until

TWO_MUST_AGREE = {**ASK_ALL, "approvals": [{"min_cost": 1, "approvers_required": 2}]}


async def test_allow_performs_the_call_and_the_message_says_who_when_and_with_what_outcome(
    chat: Chat, acts: list[str]
) -> None:
    call = asyncio.create_task(chat.call({"text": "hi"}))
    message = await chat.api.message("Agent bot (of carol) asks to use mail.send")
    assert list(message.buttons) == ["Allow", "Deny", "Allow 1 h × 5"]

    assert await chat.press(message, "Allow") == "Your yes is recorded."

    assert (await soon(call)).status.value == "success"
    assert acts == ["hi"]
    closed = await chat.closed((await call).call_id, "Outcome: success")
    assert closed.text.startswith("Allowed by anna at 2026-03-04 12:00:00 UTC\nOutcome: success\n\nAgent bot")
    assert not closed.buttons
    await until(lambda: rows(chat.gate, "SELECT * FROM question_messages") == [])


async def test_deny_ends_the_call(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()

    assert await chat.press(message, "Deny", BOB_ID) == "Your no is recorded."

    closed = await chat.closed(call_id, "Denied by bob at 2026-03-04 12:00:00 UTC. Nothing was done.")
    assert not closed.buttons
    assert acts == []


async def test_one_who_is_only_on_the_list_answers_as_an_operator(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    await chat.press(message, "Allow", DORA_ID)
    closed = await chat.closed(call_id, "Outcome: success")
    assert closed.text.startswith(f"Allowed by telegram:{DORA_ID} at")
    assert acts == ["hi"]


async def test_a_grant_lets_the_same_call_pass_again(chat: Chat, acts: list[str]) -> None:
    _, message = await chat.ask()
    told = await chat.press(message, "Allow 1 h × 5")
    assert told == "Your yes is recorded, and for 5 more such calls within 60 minutes."
    await until(lambda: acts == ["hi"])

    again = await soon(chat.call({"text": "hi"}))

    assert again.status.value == "success"
    assert acts == ["hi", "hi"]
    assert [grant.given_by for grant in await chat.context.approvals.grants()] == ["anna"]


async def test_a_quorum_of_two_shows_who_has_agreed(tmp_path: Path, api: BotApi, acts: list[str]) -> None:
    async with a_chat(tmp_path, api, sender(acts), policy=TWO_MUST_AGREE) as chat:
        call_id, message = await chat.ask()
        assert "Approvals: 0 of 2" in message.text
        assert list(message.buttons) == ["Allow", "Deny"]

        assert await chat.press(message, "Allow") == "Your yes is recorded: 1 of 2."
        await api.until(lambda: api.count("Approvals: 1 of 2: anna"))
        assert "already" in await chat.press(message, "Allow")
        assert acts == []
        await chat.press(message, "Allow", BOB_ID)

        closed = await chat.closed(call_id, "Outcome: success")
        assert closed.text.startswith("Allowed by anna, bob at")
        assert acts == ["hi"]


async def test_a_question_that_is_put_again_under_a_stricter_policy_shows_what_is_asked_now(
    chat: Chat, acts: list[str]
) -> None:
    call_id, first = await chat.ask()
    chat.gate.judge = Judge(load_policy(TWO_MUST_AGREE))
    await chat.press(first, "Allow")
    again = await chat.closed(call_id, "Approvals: 0 of 2")
    assert again.message_id == first.message_id

    assert await chat.press(first, "Allow") == "This button is out of date or forged. Nothing was done."
    await chat.press(again, "Allow")
    await chat.press(again, "Allow", BOB_ID)

    closed = await chat.closed(call_id, "Outcome: success")
    assert closed.text.startswith("Allowed by anna, bob at")
    assert acts == ["hi"]


async def test_progress_at_another_door_shows_in_the_message(tmp_path: Path, api: BotApi, acts: list[str]) -> None:
    async with a_chat(tmp_path, api, sender(acts), policy=TWO_MUST_AGREE) as chat:
        call_id, _ = await chat.ask()
        await chat.context.approvals.answer(call_id, approve=True, by=ANNA)
        await api.until(lambda: api.count("Approvals: 1 of 2: anna"))


@pytest.mark.parametrize("verb", [True, False])
async def test_an_answer_at_another_door_closes_the_message(chat: Chat, verb: bool) -> None:
    call_id, _ = await chat.ask()
    await chat.context.approvals.answer(call_id, approve=verb, by=ANNA)
    closed = await chat.closed(call_id, "Allowed by anna at" if verb else "Denied by anna at")
    assert not closed.buttons


async def test_expiry_closes_the_message(chat: Chat, clock: HandClock) -> None:
    call_id, _ = await chat.ask()
    clock.advance(901)
    closed = await chat.closed(call_id, "Expired at 2026-03-04 12:15:00 UTC: nobody answered in time.")
    assert not closed.buttons


async def test_a_withdrawn_call_closes_the_message(chat: Chat) -> None:
    agent = chat.context.identities.agents["bot"]
    request = CallRequest(agent, "mail.send", {"text": "hi"}, request_id="r1", wait=False, door="http")
    call_id = (await chat.gate.submit(request)).call_id
    await chat.api.message(call_id)
    await chat.gate.withdraw(agent, "r1")
    await chat.closed(call_id, "Withdrawn by the agent at 2026-03-04 12:00:00 UTC.")


async def test_a_foreign_user_is_refused_and_recorded_whatever_the_name(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    told = await chat.press(message, "Allow", STRANGER_ID, name="anna")
    assert told == "You are not on the list of those who may answer here."
    assert await chat.is_open(call_id)
    assert acts == []
    await chat.refused_at_door(f"telegram:{STRANGER_ID}")


async def test_a_press_in_another_chat_is_refused_and_recorded(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    assert await chat.press(message, "Allow", chat_id=-5) == "Answers are taken in another chat."
    assert await chat.is_open(call_id)
    assert acts == []
    await chat.refused_at_door(f"telegram:{ANNA_ID}")


async def test_forged_data_is_refused_and_recorded(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    _, other = await chat.ask("other")
    deny, allow, of_other = message.buttons["Deny"], message.buttons["Allow"], other.buttons["Allow"]
    forged = [
        "",
        "a",
        "x" * 64,
        "é" * 30,
        allow[:-1] + ("0" if allow[-1] != "0" else "1"),
        "a" + deny[1:],
        f"a.{call_id}.{of_other.rpartition('.')[2]}",
    ]
    for data in forged:
        assert "recorded" not in await chat.press(message, "", data=data)
    assert await chat.is_open(call_id)
    assert acts == []
    await chat.refused_at_door(f"telegram:{ANNA_ID}")


async def test_a_button_for_a_call_that_never_was_is_refused_and_recorded(chat: Chat) -> None:
    _, message = await chat.ask()
    seal = message.buttons["Allow"].rpartition(".")[2]
    told = await chat.press(message, "", data=f"a.{'0' * 26}.{seal}")
    assert told.startswith("Your answer does not count.")
    assert chat.refused_answers() == [("approve", "anna", "not_entitled")]


async def test_the_owner_of_the_agent_may_not_approve_in_telegram_either(
    tmp_path: Path, api: BotApi, acts: list[str]
) -> None:
    config = telegram_config(api.url)
    config = replace(config, agents=tuple(replace(agent, owner="anna") for agent in config.agents))
    async with a_chat(tmp_path, api, sender(acts), config=config) as chat:
        call_id, message = await chat.ask()
        assert "may not approve a call of its own" in await chat.press(message, "Allow")
        assert await chat.is_open(call_id)
        assert acts == []
        assert chat.refused_answers() == [("approve", "anna", "not_entitled")]


async def test_a_double_press_counts_once(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask()
    await chat.api.press(message, "Allow", user_id=ANNA_ID, times=2)
    await until(lambda: acts == ["hi"])
    second = await chat.press(message, "Allow")
    assert second.startswith("Your answer does not count. Allowed by anna at")
    closed = await chat.closed(call_id, "Outcome: success")
    assert "Agent bot (of carol) asks" in closed.text
    assert acts == ["hi"]


async def test_an_update_that_comes_again_is_not_handled_again(chat: Chat, acts: list[str]) -> None:
    _, message = await chat.ask()
    await chat.press(message, "Allow")
    await until(lambda: acts == ["hi"])
    notices = chat.api.called("answerCallbackQuery")
    await chat.api.repeat_last_update()
    _, other = await chat.ask("other")
    await chat.press(other, "Deny")
    assert chat.api.called("answerCallbackQuery") == notices + 1
    assert chat.refused_answers() == []


async def test_a_late_press_is_refused_recorded_and_the_message_says_expired(
    chat: Chat, clock: HandClock, acts: list[str]
) -> None:
    call_id, message = await chat.ask()
    clock.advance(901)
    told = await chat.press(message, "Allow")
    assert told.startswith("Your answer does not count. Expired at 2026-03-04 12:15:00 UTC")
    await chat.closed(call_id, "Expired at")
    assert acts == []
    assert [refused[:2] for refused in chat.refused_answers()] == [("approve", "anna")]


async def test_a_call_that_is_too_long_can_only_be_denied_here(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask("a" * 5_000)
    assert "too long to be shown here in full" in message.text
    assert f"http://127.0.0.1:{chat.context.config.gateway.port}/console" in message.text
    assert list(message.buttons) == ["Deny"]
    await chat.press(message, "Deny")
    await chat.closed(call_id, "Denied by anna")
    assert acts == []


async def test_not_even_a_genuine_seal_allows_what_was_not_shown_in_full(chat: Chat, acts: list[str]) -> None:
    call_id, message = await chat.ask("a" * 5_000)
    found = await chat.context.approvals.question(call_id)
    assert found is not None
    seals = Seals(chat.gate.secrets.keyed_hash, "telegram")
    sealed = seals.sealed(Verb.ALLOW, call_id, digest(found.question))
    told = await chat.press(message, "", data=sealed.text)
    assert told == "What cannot be shown in full cannot be approved here."
    assert await chat.is_open(call_id)
    assert acts == []


async def test_a_stored_question_that_was_changed_since_it_was_shown_cannot_be_answered(
    chat: Chat, acts: list[str]
) -> None:
    call_id, message = await chat.ask("harmless")
    chat.mutate(call_id, "harmless", "harmful!")
    told = await chat.press(message, "Allow")
    assert told == "This button is out of date or forged. Nothing was done."
    await chat.closed(call_id, "Changed since it was shown")
    assert acts == []


async def test_no_link_preview_no_markup_and_nothing_to_tap(chat: Chat) -> None:
    text = "*b* <b>x</b> https://evil.test /resume @anna"
    await chat.ask(text)
    sent = next(fields for method, fields in chat.api.calls if method == "sendMessage")
    assert text in sent["text"]
    assert "parse_mode" not in sent
    assert sent["link_preview_options"] == '{"is_disabled": true}'
    assert f'"length": {len(sent["text"])}, "offset": 0, "type": "pre"' in sent["entities"]
