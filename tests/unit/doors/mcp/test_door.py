"""Tests of the MCP door itself, in one process with the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from agent_gate import Agent, tool
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.gate.bounds import GateBounds
from agent_gate.model.errors import ConfigError
from tests.gates import ALLOW_ALL, ANNA, QUICK_GATE, a_gate, reader, sender, soon
from tests.mcp_clients import outcome_of, text_of


@asynccontextmanager
async def a_door(
    directory: Path,
    policy: Any,
    *tools: Any,
    agent: Agent | None = None,
    gate_bounds: GateBounds = QUICK_GATE,
    **options: Any,
) -> AsyncIterator[McpDoor]:
    async with a_gate(directory, policy, *tools, gate_bounds=gate_bounds) as gate:
        yield McpDoor(Calls(gate, agent or Agent("bot"), "default", 20.0), (ANNA,), **options)


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}


async def test_only_what_the_agent_could_ever_use_is_listed(tmp_path: Path) -> None:
    acts: list[str] = []
    tools = (reader(acts), sender(acts, "mail.burn", risk="high"))
    async with (
        a_door(tmp_path, ALLOW_ALL, *tools) as door,
        Client(door.server) as client,
    ):
        operators = await names(client)
    async with (
        a_door(tmp_path, ALLOW_ALL, *tools, agent=Agent("chief", ("admin",))) as door,
        Client(door.server) as client,
    ):
        admins = await names(client)
    assert "note_read" in operators & admins
    assert ("mail_burn" in operators, "mail_burn" in admins) == (False, True)
    assert ("fs_read" in operators, "fs_read" in admins) == (False, False)


async def test_a_tool_that_is_not_listed_is_judged_and_not_unknown(tmp_path: Path) -> None:
    acts: list[str] = []
    async with (
        a_door(tmp_path, ALLOW_ALL, sender(acts, "mail.burn", risk="high")) as door,
        Client(door.server) as client,
    ):
        result = await client.call_tool("mail_burn", {"text": "x"})
    assert (outcome_of(result)["error"]["code"], acts) == (1009, [])


async def test_a_defect_of_a_tool_is_an_outcome_and_of_the_door_an_error_without_its_text(tmp_path: Path) -> None:
    @tool("note.break", effect="read")
    async def break_down() -> None:
        raise RuntimeError("inner words")

    async with a_door(tmp_path, ALLOW_ALL, break_down) as door, Client(door.server) as client:
        result = await client.call_tool("note_break", {})
        with (
            patch.object(Calls, "result", side_effect=RuntimeError("inner words")),
            pytest.raises(MCPError, match="the gate itself failed: RuntimeError") as failed,
        ):
            await client.call_tool("gate_result", {"call_id": "x"})
    assert (result.is_error, outcome_of(result)["error"]["code"]) == (True, 2003)
    assert "inner words" not in str(failed.value.error)


@pytest.mark.parametrize("arguments", [{}, {"call_id": 7}, {"call_id": "x", "more": 1}])
async def test_the_doors_own_tool_checks_its_arguments(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with a_door(tmp_path, ALLOW_ALL) as door, Client(door.server) as client:
        result = await client.call_tool("gate_result", arguments)
    assert text_of(result) == "error (2002 bad_arguments): gate_result takes one text: `call_id`"


async def test_a_confirmation_is_said_beside_the_arguments(tmp_path: Path) -> None:
    acts: list[str] = []
    meta: Any = {"agent-gate/confirmed": True}
    async with (
        a_door(tmp_path, ALLOW_ALL, sender(acts, confirmation_required=True)) as door,
        Client(door.server) as client,
    ):
        unsure = await client.call_tool("mail_send", {"text": "a"})
        sure = await client.call_tool("mail_send", {"text": "a"}, meta=meta)
    assert outcome_of(unsure)["error"]["code"] == 1010
    assert (outcome_of(sure)["status"], acts) == ("success", ["a"])


async def test_two_tools_of_one_name_keep_the_door_shut(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([], "note.read"), reader([], "note_read")) as gate:
        with pytest.raises(ConfigError, match="would both be `note_read`"):
            McpDoor(Calls(gate, Agent("bot"), "default", 20.0))


async def test_another_policy_changes_the_list_and_the_client_is_told(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{pattern: '*', action: allow}]")
    async with (
        a_door(tmp_path, policy, gate_bounds=replace(QUICK_GATE, policy_poll_s=0.005), poll_s=0.005) as door,
        Client(door.server) as client,
        door.watching(),
        client.listen(tools_list_changed=True) as changes,
    ):
        before = await names(client)
        policy.write_text("rules: [{pattern: '*', action: allow}]\ntools: {fs.read: {allow_paths: ['./**']}}")
        await soon(anext(aiter(changes)))
        after = await names(client)
    assert after - before == {"fs_read"}


async def test_the_list_is_made_once_for_each_policy(tmp_path: Path) -> None:
    async with a_door(tmp_path, ALLOW_ALL) as door, Client(door.server) as client:
        with patch.object(door, "_look_up", side_effect=AssertionError("made again")):
            await names(client)
            await client.call_tool("state_get", {})
            assert "state_get" in await names(client)
