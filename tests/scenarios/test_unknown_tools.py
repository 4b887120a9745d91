"""A tool that nobody knows is 2001 at every door, with the name that was probably meant."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp.shared.exceptions import MCPError

from agent_gate.doors.cli.program import run
from agent_gate.model.nearest import did_you_mean, nearest
from tests.gates import ALLOW_ALL, a_gate, sender
from tests.mcp_clients import a_client
from tests.scenarios.visiting import a_visitor
from tests.servers import BOT_TOKEN, START_S, a_raw_agent, a_server

MEANT = "did you mean `fs.read`?"


async def test_a_gate_says_which_tool_was_probably_meant(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        errors = {
            name: (await gate.call(name)).error for name in ("fs.raed", "FS.READ", "mail.sent", "ha_get_stat", "zzz")
        }
    assert {name: (error.code, error.detail, error.suggestion) for name, error in errors.items() if error} == {
        "fs.raed": (2001, "Unknown tool: fs.raed", MEANT),
        "FS.READ": (2001, "Unknown tool: FS.READ", MEANT),
        "mail.sent": (2001, "Unknown tool: mail.sent", "did you mean `mail.send`?"),
        "ha_get_stat": (2001, "Unknown tool: ha_get_stat", "did you mean `ha_get_state`?"),
        "zzz": (2001, "Unknown tool: zzz", "see the list of tools"),
    }


async def test_request_over_the_websocket_says_which_tool_was_probably_meant(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        words = ("request", "fs.raed", "path=x", "--url", server.url, "--token", BOT_TOKEN)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "agent_gate", *words, cwd=tmp_path, env=dict(os.environ),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), START_S)
        async with a_raw_agent(server) as agent:
            answer = await agent.ask("tool_request", tool="fs.raed", args={"path": "x"})
            imagined = await agent.ask("simulate", tool="fs.raed", args={"path": "x"})
    assert (process.returncode, MEANT in out.decode(), "2001" in out.decode()) == (3, True, True)
    assert (answer["data"]["error"]["code"], answer["data"]["error"]["suggestion"]) == (2001, MEANT)
    assert MEANT in json.dumps(imagined)


async def test_a_client_of_mcp_is_told_by_the_names_that_it_knows(tmp_path: Path) -> None:
    policy = {"tools": {"fs.read": {"allow_paths": ["./**"]}}, "rules": []}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    async with a_client(tmp_path) as client:
        told = []
        for name in ("fs_raed", "fs.raed", "zzz"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {"path": "x"})
            told.append((refused.value.error.code, refused.value.error.data["error"]["suggestion"]))
    assert told == [(-32602, "did you mean `fs_read`?")] * 2 + [(-32602, "see tools/list")]


async def test_the_console_says_which_tool_was_probably_meant(tmp_path: Path) -> None:
    async with a_visitor(tmp_path) as visitor:
        page = await visitor.see("/console/check")
        tried = await visitor.do(page, "/console/check", tool="fs.raed", agent="bot", project="", mode="", args="{}")
    assert (MEANT in tried.text, "unknown_tool" in tried.text) == (True, True)


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def checked(tool: str, policy: dict[str, Any]) -> Any:
        Path("policy.yaml").write_text(yaml.safe_dump(policy))
        capsys.readouterr()
        code = run(["check", "--tool", tool, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return checked


ALL: dict[str, Any] = {"rules": [{"pattern": "*", "action": "allow"}]}


@pytest.mark.parametrize(
    ("tool", "meant"),
    [("fs.raed", "fs.read"), ("state.gett", "state.get"), ("Shell.Run", "shell.run"), ("ha_getstate", "ha_get_state")],
)
def test_check_does_not_judge_a_misspelt_tool(checked: Any, tool: str, meant: str) -> None:
    code, told = checked(tool, ALL)
    assert (code, told["decision"], told["error"]["code"], told["error"]["detail"]) == (
        1, "deny", 2001, f"Unknown tool: {tool}",
    )  # fmt: skip
    assert told["error"]["suggestion"].startswith(f"did you mean `{meant}`?")


@pytest.mark.parametrize("tool", ["mail.send", "x", "github_create_issue", "admin.do", "http.post"])
def test_check_judges_tools_of_others_by_their_names(checked: Any, tool: str) -> None:
    assert checked(tool, ALL)[1]["decision"] == "allow"


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        ({"rules": [{"pattern": "state.reset(*)", "action": "allow"}]}, "ask"),
        ({"rules": [{"pattern": "state.reset*", "action": "allow"}]}, "allow"),
        ({"rules": [], "declare": {"state.reset": {"effect": "none"}}}, "ask"),
        ({"rules": [{"pattern": "state.*", "action": "allow"}]}, "deny"),
        ({"rules": [{"pattern": "*", "action": "allow"}]}, "deny"),
    ],
)
def test_a_tool_of_ones_own_that_the_policy_names_is_judged_however_like_a_built_in_one(
    checked: Any, policy: dict[str, Any], decision: str
) -> None:
    assert checked("state.reset", policy)[1]["decision"] == decision


def test_the_nearest_name_is_found_within_bounds() -> None:
    assert nearest("x" * 1_000_000, ["x" * 100, "y"]) == "x" * 100
    assert nearest("fs.raed", []) == ""
    assert did_you_mean("b", ["a"], "no idea") == "no idea"
    assert nearest("name1999", (f"name{number}" for number in range(2_000))) != "name1999"
