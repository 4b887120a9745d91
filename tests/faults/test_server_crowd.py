"""Five hundred agents at once and ten thousand open questions: memory stays bounded, and a new call is answered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from tests.faults.test_server_kills import an_agent, rpc
from tests.serving import Running, a_site

AGENTS = 500
QUESTIONS_EACH = 20
MEMORY_BYTES_MAX = 300 * 1_000_000

POLICY: dict[str, Any] = {
    "rules": [
        {"pattern": "state.set(*)", "action": "ask"},
        {"pattern": "state.get(*)", "action": "allow"},
    ],
    "limits": {"rate": {"per_minute": 1_000_000, "per_hour": 1_000_000}},
}


async def ask(socket: ClientConnection, name: str) -> None:
    for number in range(1, QUESTIONS_EACH + 1):
        args = {"path": f"/{name}/{number}", "value": "a value of some length, as values are " * 3}
        await socket.send(json.dumps(rpc(number, "tool_request", tool="state.set", args=args, request_id=str(number))))


async def open_questions(server: Running) -> int:
    async with server.people() as people:
        metrics = (await people.get("/metrics")).text
    line = next(line for line in metrics.splitlines() if line.startswith("agent_gate_open_questions"))
    return int(float(line.split()[-1]))


@pytest.mark.serial
@pytest.mark.timeout(300)
async def test_ten_thousand_open_questions_of_five_hundred_agents_leave_room_for_a_new_call(tmp_path: Path) -> None:
    site = a_site(tmp_path, POLICY, AGENTS)
    names = [name for name in site.tokens if name != "anna"]
    with Running(site) as server:
        sockets = [await an_agent(server, name) for name in names]
        for socket, name in zip(sockets, names, strict=True):
            await ask(socket, name)
        async with asyncio.timeout(200):
            while await open_questions(server) < AGENTS * QUESTIONS_EACH:  # noqa: ASYNC110 -- another process counts
                await asyncio.sleep(0.5)
        for socket in sockets[::100]:
            await socket.send(json.dumps(rpc(99, "tool_request", tool="state.get", args={"path": ""})))
            async with asyncio.timeout(20):
                said = json.loads(await socket.recv())
            assert (said["id"], said["result"]["status"]) == (99, "success")
        async with asyncio.timeout(60):
            while server.memory_bytes() >= MEMORY_BYTES_MAX:  # noqa: ASYNC110 -- what the burst left is given back soon
                await asyncio.sleep(1)
        await asyncio.gather(*(socket.close() for socket in sockets))
