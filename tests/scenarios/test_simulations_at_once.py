"""Simulations that run at the same time do not get in each other's way."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent_gate import tool
from agent_gate.model.call import CallRequest
from tests.gates import ALLOW_ALL, a_gate, soon


async def test_two_simulated_reads_at_once_both_have_their_result(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool("slow.read", effect="read", risk="low", cost=0)
    async def slow() -> str:
        await both.wait()
        return "done"

    async with a_gate(tmp_path, ALLOW_ALL, slow) as gate:
        request = CallRequest(gate.agent, "slow.read", {})
        reached = await soon(asyncio.gather(*(gate.simulate(request, with_reads=True) for _ in range(2))))
        assert [outcome.data for outcome, _ in reached] == ["done", "done"]
