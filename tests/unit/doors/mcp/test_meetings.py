"""Tests of the MCP door where several processes, ids and writers meet."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp import Client

from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.mcp.lines import Lines
from agent_gate.model.bounds import MCP_DECIDED_S
from agent_gate.model.outcome import Status
from tests.gates import PATIENCE_S, soon
from tests.mcp_clients import outcome_of, text_of
from tests.unit.doors.mcp.test_calls import BOT, a_door, answer, call


async def test_what_another_process_of_the_agent_handed_over_is_not_handed_over_again(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
        other = Calls(calls.gate, BOT, "default", 20.0)
        await other.look_back()
        await answer(calls.gate, first)
        assert (await call(calls)).status is Status.SUCCESS
        again = await call(other)
    assert (again.status, again.call_id == first.call_id, acts) == (Status.PENDING_APPROVAL, False, ["hello"])


async def test_who_asks_for_an_approved_call_whose_process_is_gone_is_told_to_make_it_again(
    tmp_path: Path,
) -> None:
    acts: list[str] = []
    async with a_door(tmp_path, acts) as calls:
        first = await call(calls)
    async with a_door(tmp_path, acts, wait_s=0.0, decided_s=0.01) as calls, Client(McpDoor(calls).server) as client:
        await answer(calls.gate, first)
        told = await client.call_tool("gate_result", {"call_id": first.call_id})
        assert (outcome_of(told)["status"], acts) == ("pending_approval", [])
        calls.decided_s = MCP_DECIDED_S
        done = await client.call_tool("mail_send", {"text": "hello"})
    assert text_of(told) == "approved by anna: make the same call again, with the same arguments, to get its outcome"
    assert (outcome_of(done)["status"], outcome_of(done)["call_id"], acts) == ("success", first.call_id, ["hello"])


def test_what_was_printed_does_not_reach_the_client_at_the_end_either() -> None:
    program = (
        "import os\n"
        "from agent_gate.doors.mcp.stdio import protocol_pipes\n"
        "with protocol_pipes() as (_, writing):\n"
        "    print('printed and not flushed')\n"
        "    os.write(writing, b'protocol')\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_S, env=env, check=True)
    assert (done.stdout, done.stderr) == (b"protocol", b"printed and not flushed\n")


async def test_descriptors_that_do_not_wait_are_waited_for() -> None:
    reading, given = os.pipe()
    taken, writing = os.pipe()
    for number in (reading, writing):
        os.set_blocking(number, False)
    lines = Lines(reading, writing)
    first = asyncio.ensure_future(anext(aiter(lines)))
    long = asyncio.create_task(lines.write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    os.write(given, b"line\n")
    assert await soon(first) == b"line"
    assert len(await asyncio.to_thread(_all_of, taken, 1_000_001)) == 1_000_001
    await soon(long)
    for number in (given, taken):
        os.close(number)


def _all_of(number: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(number, 65_536)
    return data
