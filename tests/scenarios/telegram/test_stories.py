"""Random stories of presses, outages, floods, lost answers and restarts: the chat tells the truth in the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent_gate import GateError
from tests.bot_api import BotApi, Message
from tests.chats import ANNA_ID, BOB_ID, STRANGER_ID, Chat, a_chat
from tests.gates import ANNA, HandClock, entries, rows, sender, soon, until

STORIES = 300 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 12
STEPS = 40
METHODS = ("getUpdates", "sendMessage", "editMessageText", "answerCallbackQuery")
HEADLINES = {"approved": "Allowed by ", "denied": "Denied by ", "expired": "Expired at "}


class Story:
    def __init__(self, directory: Path, seed: int) -> None:
        self._directory, self._random, self.clock = directory, Random(seed), HandClock()
        self.api, self.acts = BotApi(self.clock.now), list[str]()
        self.calls: list[str] = []
        self._life = AsyncExitStack()
        self._chat: Chat | None = None

    @property
    def chat(self) -> Chat:
        assert self._chat is not None
        return self._chat

    async def open(self) -> None:
        self._life = AsyncExitStack()
        opening = a_chat(self._directory, self.api, sender(self.acts), clock=self.clock)
        self._chat = await soon(self._life.enter_async_context(opening))

    async def close(self) -> None:
        await soon(self._life.aclose())

    async def go_on(self) -> None:
        chance = self._random
        match chance.randrange(10):
            case 0 | 1:
                await self._ask()
            case 2 | 3 | 4:
                await self._press(chance.choice((ANNA_ID, BOB_ID, STRANGER_ID)))
            case 5:
                await self._answer_elsewhere()
            case 6:
                self._disturb()
            case 7:
                self.clock.advance(chance.choice((1, 60, 300)))
            case 8 if chance.random() < 0.3:
                await self.close()
                await self.open()
            case 8 if chance.random() < 0.5:
                await self.api.go_down()
            case _:
                self.api.is_down = False
        await asyncio.sleep(chance.choice((0, 0, 0.005, 0.02)))

    async def _ask(self) -> None:
        outcome = await soon(self.chat.call({"text": f"text{len(self.calls)}"}, wait=False))
        self.calls.append(outcome.call_id)

    async def _press(self, user_id: int) -> None:
        if shown := self._with_buttons():
            message = self._random.choice(shown)
            label = self._random.choice(("Allow", "Deny"))
            await self.api.press(message, label, user_id=user_id, times=self._random.choice((1, 1, 2)))

    async def _answer_elsewhere(self) -> None:
        if questions := await self.chat.context.approvals.questions():
            call_id = self._random.choice(questions).question.call_id
            with suppress(GateError):  # a press may be faster
                await self.chat.context.approvals.answer(call_id, approve=self._random.random() < 0.5, by=ANNA)

    def _disturb(self) -> None:
        method = self._random.choice(METHODS)
        match self._random.randrange(4):
            case 0:
                self.api.fail(method, 429, "Too Many Requests", retry_after=3)
            case 1:
                self.api.fail(method, self._random.choice((500, 502)), "Internal", times=2)
            case 2:
                self.api.drop(method, times=2)
            case _:
                self.api.drop(method, done=True)

    async def end(self) -> None:
        """Telegram is well again, and every deadline passes."""
        self.api.calm()
        self.clock.advance(10_000)
        for call_id in self.calls:
            await soon(self.chat.gate.result(call_id))
        await until(lambda: rows(self.chat.gate, "SELECT * FROM question_messages") == [])
        for message in self._with_buttons():  # those of which the answer got lost, so that nobody knows them
            told = await self.chat.press(message, "Allow")
            assert told.startswith("Your answer does not count.")
        await self.api.until(lambda: not self._with_buttons())
        self._examine()

    def _with_buttons(self) -> list[Message]:
        return [message for message in self.api.messages.values() if message.buttons]

    def _examine(self) -> None:
        """What was done was allowed, by somebody on the list, once; and that is what the chat says."""
        gate = self.chat.gate
        answers: dict[str, Mapping[str, Any]] = {row["call_id"]: row for row in entries(gate, "answered")}
        assert {row["body"]["resolved_by"] for row in answers.values()} <= {"anna", "bob", ""}
        for number, call_id in enumerate(self.calls):
            how = answers[call_id]["status"]
            assert self.acts.count(f"text{number}") == (how == "approved")
            texts = [message.text for message in self.api.with_text(call_id)]
            assert all(text.startswith(HEADLINES[how]) for text in texts), (how, texts)
            assert how != "approved" or all("\nOutcome: success\n" in text for text in texts)


@pytest.mark.parametrize("seed", range(STORIES))
async def test_whatever_happens_the_chat_tells_the_truth_in_the_end(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed)
    async with story.api.serving():
        await story.open()
        for _ in range(STEPS):
            await story.go_on()
        await story.end()
        await story.close()
