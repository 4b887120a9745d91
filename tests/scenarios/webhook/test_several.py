"""Several messengers at once: each is asked, the first answer counts, and the others are told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agent_gate.config import Config, MessengerConfig
from agent_gate.doors.identity import Identities
from agent_gate.hosts.server.messengers import messengers_of
from tests.bot_api import BotApi
from tests.chats import ANNA_ID, Pauses, telegram_config
from tests.gates import ASK_ALL, HandClock, sender, until
from tests.servers import Served, a_server
from tests.webhooks import Hooked, Receiver, webhook_config


def both(api: BotApi, receiver: Receiver) -> Config:
    config, webhook = telegram_config(api.url), webhook_config(receiver.url).messenger
    assert isinstance(webhook, MessengerConfig)
    assert isinstance(config.messenger, MessengerConfig)
    return replace(config, messenger=None, messengers=(config.messenger, webhook))


@asynccontextmanager
async def a_server_with_both(
    directory: Path, api: BotApi, receiver: Receiver, clock: HandClock, acts: list[str]
) -> AsyncIterator[tuple[Served, Hooked]]:
    config = both(api, receiver)
    messengers = messengers_of(config)
    assert messengers is not None
    async with (
        a_server(directory, ASK_ALL, sender(acts), config=config, people=messengers, clock=clock) as served,
        messengers.at_work(served.context),
    ):
        yield served, Hooked(served, messengers._messengers["messenger:webhook"], receiver, clock, Pauses())


async def test_an_answer_in_the_chat_is_told_to_the_webhook(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    async with (
        BotApi(clock.now).serving() as api,
        a_server_with_both(tmp_path, api, receiver, clock, acts) as (_, hooked),
    ):
        call_id, asked = await hooked.ask()
        message = await api.message(call_id)
        await api.notice(await api.press(message, "Allow", user_id=ANNA_ID))
        ended = await receiver.told("question.ended", call_id)
        assert (ended.data["resolution"], ended.data["by"]) == ("approved", ["anna"])
        late = await hooked.answer(asked, "deny", "bob")
        assert late.status_code in (404, 409)
        await until(lambda: acts == ["hi"])


async def test_an_answer_by_webhook_closes_the_message_in_the_chat(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    async with (
        BotApi(clock.now).serving() as api,
        a_server_with_both(tmp_path, api, receiver, clock, acts) as (_, hooked),
    ):
        call_id, asked = await hooked.ask()
        message = await api.message(call_id)
        assert (await hooked.answer(asked, "deny", "bob")).status_code == 200
        await api.until(lambda: "Denied by bob" in api.messages[message.message_id].text)
        assert not api.messages[message.message_id].buttons
        assert acts == []


async def test_of_two_answers_at_the_same_time_one_counts(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    async with (
        BotApi(clock.now).serving() as api,
        a_server_with_both(tmp_path, api, receiver, clock, acts) as (_, hooked),
    ):
        call_id, asked = await hooked.ask()
        message = await api.message(call_id)
        pressed, answered = await asyncio.gather(
            api.press(message, "Allow", user_id=ANNA_ID), hooked.answer(asked, "allow", "bob")
        )
        told = await api.notice(pressed)
        counted = [told == "Your yes is recorded.", answered.status_code == 200]
        assert sorted(counted) == [False, True]
        await until(lambda: acts == ["hi"])


async def test_one_that_cannot_be_reached_keeps_nobody_from_being_asked_by_the_other(
    tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]
) -> None:
    receiver.statuses = [500] * 10_000
    async with (
        BotApi(clock.now).serving() as api,
        a_server_with_both(tmp_path, api, receiver, clock, acts) as (served, hooked),
    ):
        call_id = await hooked.call({"text": "hi"})
        message = await api.message(call_id)
        await api.notice(await api.press(message, "Allow", user_id=ANNA_ID))
        await until(lambda: acts == ["hi"])
        await until(lambda: hooked.messenger.trouble)
        checks = served.context.checks
        assert set(checks) == {"messenger:telegram", "messenger:webhook"}
        assert await checks["messenger:telegram"]() is True
        assert await checks["messenger:webhook"]() == "the webhook at 127.0.0.1 answers 500"


def test_people_on_the_list_of_the_chat_are_known_whichever_way_it_is_configured() -> None:
    api = BotApi()
    listed = both(api, Receiver(url="http://127.0.0.1:1/"))
    assert Identities(listed).telegram_user(ANNA_ID) == Identities(telegram_config(api.url)).telegram_user(ANNA_ID)
    assert listed.every_messenger == listed.messengers
