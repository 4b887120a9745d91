"""A receiver for each test, and a server whose questions it is told of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gates import HandClock, sender
from tests.webhooks import Hooked, Receiver, a_hook


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def acts() -> list[str]:
    return []


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().serving() as receiver:
        yield receiver


@pytest.fixture
async def hooked(tmp_path: Path, receiver: Receiver, clock: HandClock, acts: list[str]) -> AsyncIterator[Hooked]:
    async with a_hook(tmp_path, receiver, sender(acts), clock=clock) as hooked:
        yield hooked
