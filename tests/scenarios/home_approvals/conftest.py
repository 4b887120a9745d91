"""A home for each test: a gate, its approvals and their phones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_gate.simulated_home import Running, simulated_home
from tests.gates import HandClock, sender
from tests.phones import AtHome, at_home


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as running:
        yield running


@pytest.fixture
def acts() -> list[str]:
    return []


@pytest.fixture
async def people(tmp_path: Path, running: Running, clock: HandClock, acts: list[str]) -> AsyncIterator[AtHome]:
    async with at_home(tmp_path, running, sender(acts), clock=clock) as people:
        yield people
