"""kill -9 of a server while questions are open, ten times in a row: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from agent_gate.history.verify import verify
from tests.serving import Running, Site, a_site

KILLS = 10
CALLS_EACH = 6


def policy(directory: Path) -> dict[str, Any]:
    return {
        "rules": [{"pattern": "fs.write(*)", "action": "ask"}],
        "tools": {"fs.write": {"allow_paths": [f"{directory}/done/**"]}},
    }


async def an_agent(server: Running, name: str = "bot-0") -> ClientConnection:
    socket = await connect(server.ws_url)
    await socket.send(json.dumps(rpc(0, "auth", token=server.site.tokens[name])))
    assert json.loads(await socket.recv())["result"]["status"] == "authenticated"
    return socket


def rpc(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def append(directory: Path, id: str) -> dict[str, Any]:
    """A write that shows how often it was done."""
    return {"path": str(directory / "done" / id), "content": f"{id}\n", "mode": "append"}


async def approve_some(server: Running, random: Random, share: float) -> None:
    async with server.people() as people:
        for question in (await people.get("/api/v1/pending")).json()["pending"]:
            if random.random() < share:
                verb = "approve" if random.random() < 0.8 else "deny"
                await people.post(f"/api/v1/pending/{question['call_id']}/{verb}", json={})


async def one_life(site: Site, random: Random, ids: list[str]) -> None:
    """A server that takes calls and answers, and is killed in the middle of it."""
    with Running(site) as server:
        socket = await an_agent(server)
        for number, id in enumerate(ids, 1):
            args = append(site.directory, id)
            await socket.send(json.dumps(rpc(number, "tool_request", tool="fs.write", args=args, request_id=id)))
        answering = asyncio.create_task(approve_some(server, random, 0.5))
        await asyncio.sleep(random.random() * 0.5)
        server.kill()
        await asyncio.gather(answering, return_exceptions=True)
        await socket.close()


@pytest.mark.timeout(300)
async def test_nothing_is_lost_and_nothing_done_twice_by_ten_kills_in_a_row(tmp_path: Path) -> None:
    site, random, ids = a_site(tmp_path, policy(tmp_path)), Random(4), []
    (tmp_path / "done").mkdir()
    for life in range(KILLS):
        new = [f"{life}-{number}" for number in range(CALLS_EACH)]
        ids += new
        await one_life(site, random, new)
    outcomes = await last_life(site, random, ids)
    assert outcomes.keys() == set(ids)
    for id, outcome in outcomes.items():
        file = tmp_path / "done" / id
        lines = file.read_text().splitlines() if file.exists() else []
        allowed = {"success": ([id],), "unknown": ([], [id])}.get(outcome["status"], ([],))
        assert lines in allowed, (id, outcome, lines)
    assert Counter(outcome["status"] for outcome in outcomes.values())["success"] > 0
    assert verify(site.db).ok


async def last_life(site: Site, random: Random, ids: list[str]) -> dict[str, dict[str, Any]]:
    """What became of every request: all open questions are answered, and each request is made once more."""
    with Running(site) as server:
        socket = await an_agent(server)
        for number, id in enumerate(ids, 1):
            args = append(site.directory, id)
            await socket.send(json.dumps(rpc(number, "tool_request", tool="fs.write", args=args, request_id=id)))
        outcomes: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(120):
            while len(outcomes) < len(ids):
                await approve_some(server, random, 1.0)
                try:
                    async with asyncio.timeout(0.2):
                        while len(outcomes) < len(ids):
                            said = json.loads(await socket.recv())
                            outcome = said["result"] if "result" in said else said["error"]["data"]
                            assert outcome["request_id"] not in outcomes
                            outcomes[outcome["request_id"]] = outcome
                except TimeoutError:
                    continue
        await socket.close()
        assert server.stop() == 0
    return outcomes
