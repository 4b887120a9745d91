"""Messages about questions whose process is gone: they say so, until somebody holds the call again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from agent_gate.model.call import STDIO_DOOR, CallRequest
from tests.bot_api import BotApi
from tests.chats import QUICK, Chat, a_chat, telegram_config
from tests.gates import ASK_ALL, HandClock, a_gate, agent, pending, sender, soon
from tests.scenarios.test_unattended_questions import leave, only_question

NOBODY = (
    "The process that asked is gone: nobody is there to perform it. A yes helps only if"
    " bot makes the same call again before 2026-03-04T12:15Z; else it expires."
)
SERVER = "The process that asked is gone. If you allow it, this server performs it."


def a_call(*, wait: bool = True) -> CallRequest:
    return CallRequest(agent("bot"), "mail.send", {"text": "hi"}, request_id="mcp-1", wait=wait, door=STDIO_DOOR)


async def says(chat: Chat, call_id: str, line: str, *, said: bool = True) -> None:
    await chat.api.until(lambda: [line in one.text for one in chat.api.with_text(call_id)] == [said])


async def test_a_message_says_that_the_process_has_gone_and_takes_it_back_when_the_call_is_held_again(
    tmp_path: Path, api: BotApi, clock: HandClock
) -> None:
    """No server knows the agent; its own process goes, and a new one makes the same call again."""
    acts: list[str] = []
    nobody = replace(telegram_config(api.url), agents=())
    async with AsyncExitStack() as server:
        async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as holder:
            await holder.submit(a_call(wait=False))
            call_id = (await only_question(holder)).call_id
            chat = await server.enter_async_context(a_chat(tmp_path, api, bounds=QUICK, clock=clock, config=nobody))
            message = await api.message(call_id)
            assert "is gone" not in message.text
        await says(chat, call_id, NOBODY)
        async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock) as again:
            made = asyncio.create_task(again.submit(a_call()))
            await says(chat, call_id, "is gone", said=False)
            await chat.press(message, "Allow")
            outcome = await soon(made)
        assert (outcome.ok, outcome.call_id, acts) == (True, call_id, ["hi"])
        assert api.called("sendMessage") == 1


async def test_a_new_message_says_that_its_process_is_gone_and_that_the_server_performs_it(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    leave(tmp_path, "mail.send", {"text": "hi"})
    async with a_chat(tmp_path, api, sender(acts), bounds=QUICK, clock=clock) as chat:
        call_id = (await only_question(chat.gate)).call_id
        message = await api.message(call_id)
        assert SERVER in message.text
        await chat.press(message, "Allow")
        closed = await chat.closed(call_id, "Outcome: success")
        assert SERVER not in closed.text
        assert acts == ["hi"]


async def test_a_message_that_said_nobody_says_this_server_once_a_server_would_perform_it(
    tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]
) -> None:
    leave(tmp_path, "mail.send", {"text": "hi"})
    nobody = replace(telegram_config(api.url), agents=())
    async with a_chat(tmp_path, api, sender(acts), bounds=QUICK, clock=clock, config=nobody) as chat:
        call_id = (await only_question(chat.gate)).call_id
        await says(chat, call_id, NOBODY)
    async with a_chat(tmp_path, api, sender(acts), bounds=QUICK, clock=clock) as chat:
        await says(chat, call_id, SERVER)
        assert api.called("sendMessage") == 1


async def test_a_message_is_drawn_once_while_nothing_changes(tmp_path: Path, api: BotApi, clock: HandClock) -> None:
    leave(tmp_path, "mail.send", {"text": "hi"})
    async with a_chat(tmp_path, api, sender([]), bounds=QUICK, clock=clock) as chat:
        call_id = (await only_question(chat.gate)).call_id
        await says(chat, call_id, SERVER)
        other = await pending(chat.gate, "mail.send", {"text": "other"}, agent=agent("bot"))
        await api.message(other.call_id)
        assert (api.called("sendMessage"), api.called("editMessageText")) == (2, 0)
