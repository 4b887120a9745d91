"""The houses that contract tests run against."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agent_gate.simulated_home import simulated_home
from tests.contract.houses import House


@pytest.fixture(params=["simulated", "real"])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    if request.param == "real":
        yield House.named(request.getfixturevalue("real_home"))
        return
    async with simulated_home() as running:
        yield House.named(running)
