"""The WebSocket door and agents that come and go: what goes on without them stays within bounds."""

from __future__ import annotations

from pathlib import Path

from agent_gate.doors.bounds import DoorBounds
from tests.gates import ANNA, ASK_ALL, People, sender, until
from tests.servers import BOT_TOKEN, a_raw_agent, a_server


async def test_a_plan_that_goes_on_without_its_agent_counts_like_a_connection(tmp_path: Path) -> None:
    people, acts = People(), list[str]()
    bounds = DoorBounds(agent_connections_max=1)
    async with a_server(tmp_path, ASK_ALL, sender(acts), people=people, bounds=bounds) as server:
        async with a_raw_agent(server) as agent:
            await agent.begin("execute_plan", plan={"version": "1.0", "steps": [{"tool": "mail.send"}]})
            asked = await people.question()
        async with a_raw_agent(server, token=None) as other:
            await other.begin("auth", token=BOT_TOKEN)
            assert await other.closed() == 1013
        await server.gate.answer(asked.call_id, approve=True, by=ANNA)
        await until(lambda: acts)
