"""A chat for each test: a gate, its messenger and a Bot API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bot_api import BotApi
from tests.chats import Chat, a_chat
from tests.gates import QUICK_SUMMARY, HandClock, sender


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def api(clock: HandClock) -> AsyncIterator[BotApi]:
    async with BotApi(clock.now).serving() as serving:
        yield serving


@pytest.fixture
def acts() -> list[str]:
    return []


@pytest.fixture
async def chat(tmp_path: Path, api: BotApi, clock: HandClock, acts: list[str]) -> AsyncIterator[Chat]:
    async with a_chat(tmp_path, api, sender(acts), clock=clock, gate_bounds=QUICK_SUMMARY) as chat:
        yield chat
