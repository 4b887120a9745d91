"""`agent-gate serve` as a process: how it starts, what it refuses, and how it ends and begins again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization

from agent_gate.client import GateClient
from agent_gate.config import load_config
from agent_gate.history.verify import verify
from agent_gate.model.outcome import Status
from tests.gates import soon
from tests.scenarios.certificates import Authority
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CLERK_TOKEN, CONFIG, START_S, Process, a_process

POLICY: Any = {
    "rules": [
        {"pattern": "state.get*", "action": "allow"},
        {"pattern": "state.set(/notes/*)", "action": "allow"},
        {"pattern": "state.set(/settings/*)", "action": "ask"},
    ],
    "boundary": "deny_by_default",
    "tools": {
        "fs.read": {"allow_paths": ["./**"]},
        "shell.run": {"allow_executables": ["sleep"], "unchecked_executables": ["sleep"]},
    },
    "roles": {"operator": {"max_risk": "high"}},
    "approvals": [],
}


@asynccontextmanager
async def as_anna(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {ANNA_TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        yield client


async def questions(url: str) -> list[dict[str, Any]]:
    """Those that are open, once there is one."""
    async with as_anna(url) as anna, asyncio.timeout(START_S):
        while not (found := (await anna.get("/api/v1/pending")).json()["pending"]):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.02)
        return list(found)


async def approve(url: str, question: dict[str, Any]) -> None:
    async with as_anna(url) as anna:
        place = f"/api/v1/pending/{question['call_id']}/approve"
        assert (await anna.post(place, json={"nonce": question["nonce"]})).status_code == 200


async def failed(directory: Path, *options: str, policy: Any = POLICY, config: str = CONFIG) -> tuple[int, str]:
    """How a start ended that cannot go well, and the one line that it said."""
    async with a_process(directory, *options, policy=policy, config=config) as server:
        assert server.process.stdout is not None
        said = json.loads(await asyncio.wait_for(server.process.stdout.read(), START_S))
        code, errors = await server.ended()
        assert errors == ""
        return code, f"{said['error']['name']}: {said['error']['detail']}"


async def test_it_serves_agents_and_people_and_makes_the_projects_of_the_configuration(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot, GateClient(url, CLERK_TOKEN, project="home") as clerk:
            assert (await bot.call("state.set", path="/notes/x", value=1)).ok
            assert (await clerk.state()).data == {"rooms": 3}
            calling = asyncio.create_task(bot.call("state.set", path="/settings/x", value=2))
            [question] = await questions(url)
            assert (question["agent_id"], question["args"]) == ("bot", {"path": "/settings/x", "value": 2})
            await approve(url, question)
            assert (await soon(calling)).ok
        server.signal(signal.SIGTERM)
        assert await server.ended() == (0, "")
    assert verify(tmp_path / "agent-gate.db").ok


async def test_the_gates_own_files_are_out_of_reach(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            outcome = await bot.call("fs.read", path="config.yaml")
            assert outcome.error is not None
            assert outcome.error.code == 1021


async def test_commands_run_in_their_sandbox_also_below_this_event_loop(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            outcomes = await asyncio.gather(*(bot.call("shell.run", argv=["sleep", "0.05"]) for _ in range(4)))
            assert [(outcome.data["return_code"], outcome.data["stderr"]) for outcome in outcomes] == [(0, "")] * 4


async def test_a_held_call_goes_on_after_a_restart_with_its_old_deadline(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            with pytest.raises(TimeoutError):
                await bot.call("state.set", path="/settings/x", value=2, request_id="r", timeout_s=0.5)
            [before] = await questions(url)
        server.signal(signal.SIGTERM)
        assert await server.ended() == (0, "")
    async with a_process(tmp_path) as server:
        told = await server.told("serving")
        assert told["taken_over"] == 1
        [after] = await questions(told["url"])
        assert {**after, "nonce": ""} == {**before, "nonce": ""}
        await approve(told["url"], after)
        async with GateClient(told["url"], BOT_TOKEN) as bot:
            outcome = await bot.call("state.set", path="/settings/x", value=2, request_id="r")
            assert (outcome.status, outcome.call_id) == (Status.SUCCESS, before["call_id"])
            assert (await bot.state()).state_version in (1, None)


async def test_a_killed_server_loses_no_question(tmp_path: Path) -> None:
    held: list[str] = []
    for number in range(3):
        async with a_process(tmp_path, policy=POLICY) as server:
            url = (await server.told("serving"))["url"]
            assert [question["call_id"] for question in (await questions(url) if held else [])] == held
            async with GateClient(url, BOT_TOKEN) as bot:
                outcome = await bot.call("state.set", path=f"/settings/{number}", value=number, wait=False)
            held.append(outcome.call_id)
            server.signal(signal.SIGKILL)
            assert (await server.ended())[0] == -signal.SIGKILL
    async with a_process(tmp_path) as server:
        url = (await server.told("serving"))["url"]
        for question in await questions(url):
            await approve(url, question)
        async with GateClient(url, BOT_TOKEN) as bot, asyncio.timeout(START_S):
            while len(found := await bot.results()) < 3:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)
            assert sorted(outcome.call_id for outcome in found) == sorted(held)
            assert (await bot.state()).data == {"settings": {"0": 0, "1": 1, "2": 2}}


async def test_what_runs_is_settled_before_the_end_and_agents_are_told(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            running = asyncio.create_task(bot.call("shell.run", argv=["sleep", "1"], request_id="r"))
            await until_performing(tmp_path)
            server.signal(signal.SIGTERM)
            await server.told("ending")
            assert (await soon(running)).ok
            assert await server.ended() == (0, "")


async def until_performing(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "agent-gate.db")) as ledger:
        async with asyncio.timeout(START_S):
            while not ledger.execute("SELECT 1 FROM entries WHERE kind = 'performing'").fetchone():  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.01)


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            running = asyncio.create_task(bot.call("shell.run", argv=["sleep", "30"]))
            await until_performing(tmp_path)
            server.signal(signal.SIGTERM)
            await server.told("ending")
            server.signal(signal.SIGTERM)
            assert (await server.ended())[0] == 128 + signal.SIGTERM
            running.cancel()
    async with a_process(tmp_path) as server:
        await server.told("serving")
        server.signal(signal.SIGINT)
        assert await server.ended() == (0, "")


async def test_sighup_loads_the_policy_again(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=POLICY) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            assert not (await bot.call("state.set", path="/other", value=1)).ok
            (tmp_path / "policy.yaml").write_text("rules: [{pattern: '*', action: allow}]")
            server.signal(signal.SIGHUP)
            assert (await server.told("policy"))["loaded"]
            assert (await bot.call("state.set", path="/other", value=1)).ok
            (tmp_path / "policy.yaml").write_text("rules: [{pattern: '*', action: wild}]")
            server.signal(signal.SIGHUP)
            assert not (await server.told("policy"))["loaded"]
            assert (await bot.call("state.set", path="/other", value=2)).ok


async def test_without_tls_it_serves_this_machine_alone_unless_told_otherwise(tmp_path: Path) -> None:
    everywhere = CONFIG.replace("127.0.0.1", "0.0.0.0")
    code, line = await failed(tmp_path, config=everywhere)
    assert (code, line.partition(":")[0]) == (3, "config")
    assert "gateway.tls" in line
    async with a_process(tmp_path, "--insecure") as server:
        assert (await server.told("serving"))["url"].startswith("http://0.0.0.0:")


def certificate_files(directory: Path) -> tuple[Authority, str]:
    """An authority, and the tls section of a configuration with what it signed."""
    authority = Authority(directory)
    authority.server("127.0.0.1")  # writes certificate and key into one file
    return authority, "tls: {cert: 127.0.0.1.pem, key: 127.0.0.1.pem}"


async def test_over_tls(tmp_path: Path) -> None:
    authority, tls = certificate_files(tmp_path)
    config = CONFIG.replace("port: 0}", f"port: 0, {tls}}}")
    async with a_process(tmp_path, policy=POLICY, config=config) as server:
        told = await server.told("serving")
        assert told["agents"].startswith("wss://127.0.0.1:")
        async with GateClient(told["url"], BOT_TOKEN, ssl=authority.client()) as bot:
            assert (await bot.call("state.set", path="/notes/x", value=1)).ok
            denied = await bot.call("fs.read", path="127.0.0.1.pem")
            assert denied.error is not None
            assert denied.error.code == 1021
        ca = tmp_path / "ca.pem"
        ca.write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
        port = told["url"].rpartition(":")[2]
        (tmp_path / "config.yaml").write_text(config.replace("port: 0", f"port: {port}"))
        code, out = await command(tmp_path, "pending", "--ca", "ca.pem", "--json")
        assert (code, json.loads(out)["pending"]) == (0, [])


@pytest.mark.parametrize("wrong", ["cert: missing.pem, key: 127.0.0.1.pem", "cert: config.yaml, key: config.yaml"])
async def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path, wrong: str) -> None:
    certificate_files(tmp_path)
    code, line = await failed(tmp_path, config=CONFIG.replace("port: 0}", f"port: 0, tls: {{{wrong}}}}}"))
    assert (code, line.partition(":")[0]) == (3, "config")
    assert "gateway.tls" in line


async def test_a_port_that_is_taken_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line = await failed(tmp_path, config=CONFIG.replace("port: 0", f"port: {port}"))
    assert code == 5
    assert line == f"service_unavailable: cannot listen on 127.0.0.1:{port}: address already in use"
    assert not (tmp_path / "agent-gate.db").exists()


@pytest.mark.parametrize(
    ("config", "policy", "word"),
    [
        (CONFIG.replace(BOT_TOKEN, '""'), POLICY, "agents[0].token"),
        (CONFIG.replace("port: 0", "port: 99999"), POLICY, "gateway.port"),
        (CONFIG.replace("home: {", "_home: {"), POLICY, "_home"),
        (CONFIG + "storage: {type: postgresql, url: postgresql://h/x}", POLICY, "storage.type: `postgresql` is not in"),
        (CONFIG + "anchor: {path: elsewhere}", POLICY, "anchor: not in this release"),
        (
            CONFIG + "services: {mcp_servers: {wiki: {url: 'https://wiki'}}}",
            POLICY,
            "services.mcp_servers: not in this",
        ),
        (CONFIG, {"rules": [{"pattern": "x", "action": "wild"}]}, "action"),
    ],
)
async def test_files_that_are_wrong_stop_the_start_on_one_line(
    tmp_path: Path, config: str, policy: Any, word: str
) -> None:
    code, line = await failed(tmp_path, config=config, policy=policy)
    assert code == 3
    assert word in line


async def command(directory: Path, *words: str, **environment: str) -> tuple[int, str]:
    """A command of agent-gate: its exit code, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agent_gate", *words,
        cwd=directory, env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), START_S)
    assert process.returncode is not None
    assert b"Traceback" not in out
    return process.returncode, out.decode()


@asynccontextmanager
async def at_home(directory: Path) -> AsyncIterator[Process]:
    """A server whose port is in the configuration, as a user has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with a_process(directory, policy=POLICY, config=CONFIG.replace("port: 0", f"port: {port}")) as server:
        await server.told("serving")
        yield server


async def test_a_person_answers_from_the_command_line(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        assert await command(tmp_path, "pending") == (0, "nothing waits for a person\n")
        words = ("request", "state.set", "path=/settings/x", "value=[1, 2]", "--request-id", "r", "--json")
        code, out = await command(tmp_path, *words, "--no-wait")
        assert (code, json.loads(out)["status"]) == (4, "pending_approval")
        code, out = await command(tmp_path, "pending", "--json")
        [question] = json.loads(out)["pending"]
        assert question["args"] == {"path": "/settings/x", "value": [1, 2]}
        assert question["call_id"] in (await command(tmp_path, "pending"))[1]
        code, out = await command(tmp_path, "approve", question["call_id"], "--grant", "60", "--uses", "2")
        assert (code, out) == (0, "approved  state.set(/settings/x, %5B1%2C2%5D)\n")
        code, out = await command(tmp_path, *words)
        assert (code, json.loads(out)["state_version"]) == (0, 1)
        code, out = await command(tmp_path, "approve", question["call_id"], "--json")
        assert (code, json.loads(out)["error"]["code"]) == (1, 6003)
        code, out = await command(tmp_path, "grants", "--json")
        [grant] = json.loads(out)["grants"]
        assert grant["uses_left"] == 2
        assert (await command(tmp_path, "grants", "--revoke", grant["grant_id"]))[0] == 0
        assert await command(tmp_path, "grants") == (0, "no grants\n")


async def test_a_question_is_shown_whole_before_it_is_answered(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        text = "first\n\u202esecond" + "x" * 5_000
        arguments = json.dumps({"path": "/settings/x", "value": {"text": text, "n": 1}})
        await command(tmp_path, "request", "state.set", "--args", arguments, "--no-wait")
        await command(tmp_path, "request", "state.set", "path=/settings/y", "value=a\nb", "--no-wait")
        first, second = json.loads((await command(tmp_path, "pending", "--json"))[1])["pending"]
        _, part = await command(tmp_path, "pending", first["call_id"])
        assert f"├─ … more: agent-gate pending {first['call_id']} --all\n" in part
        code, out = await command(tmp_path, "pending", first["call_id"], "--all")
        assert (code, "/settings/y" in out) == (0, False)
        assert out.startswith("╭─ bot asks to call state.set in project default\n")
        assert "│ /settings/x\n" in out
        assert "first\\n⟨U+202E⟩second" + "x" * 5_000 in out
        assert "0 of 1" in out
        assert f"agent-gate approve {first['call_id']}" in out
        assert "│ a\n│       │ b\n" in (await command(tmp_path, "pending", second["call_id"]))[1]
        code, out = await command(tmp_path, "pending", first["call_id"], "--json")
        assert [one["call_id"] for one in json.loads(out)["pending"]] == [first["call_id"]]
        code, out = await command(tmp_path, "pending", "x")
        assert (code, out.count("\n")) == (1, 1)
        assert "no question about call `x` is open" in out


async def test_a_no_is_a_no(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        waiting = asyncio.create_task(
            command(tmp_path, "request", "state.set", "path=/settings/x", "value=1", "--json")
        )
        url = f"http://127.0.0.1:{port_of(tmp_path)}"
        [question] = await questions(url)
        assert (await command(tmp_path, "deny", question["call_id"], "--note", "not now"))[0] == 0
        code, out = await waiting
        assert (code, json.loads(out)["error"]["code"]) == (1, 1015)


def port_of(directory: Path) -> int:
    return load_config(directory / "config.yaml").gateway.port


async def test_everything_can_be_stopped_and_let_go_on(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        assert (await command(tmp_path, "pause", "--reason", "tea"))[0] == 0
        assert json.loads((await command(tmp_path, "pause", "--json"))[1]) == {"changed": False, "paused": True}
        code, out = await command(tmp_path, "request", "state.get")
        assert (code, "the gate is paused" in out) == (1, True)
        assert (await command(tmp_path, "resume"))[0] == 0
        assert (await command(tmp_path, "request", "state.get"))[0] == 0
        code, out = await command(tmp_path, "tools", "--json")
        assert "state.get" in [tool["name"] for tool in json.loads(out)["tools"]]


async def test_an_agents_token_answers_nothing(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        for words in (["pending"], ["approve", "x"], ["deny", "x"], ["grants"], ["pause"], ["resume"]):
            code, out = await command(tmp_path, *words, AGENT_GATE_TOKEN=BOT_TOKEN)
            if words != ["pending"]:
                assert code == 1, out
        code, out = await command(tmp_path, "request", "state.get", AGENT_GATE_TOKEN=ANNA_TOKEN)
        assert (code, "does not know this token" in out) == (3, True)


async def test_requests_end_with_the_codes_of_their_outcomes(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        assert (await command(tmp_path, "request", "state.set", "--args", '{"path": "/notes/x", "value": 1}'))[0] == 0
        assert (await command(tmp_path, "request", "state.set", "path=/other", "value=1"))[0] == 1
        assert (await command(tmp_path, "request", "state.set", "path=/notes/x"))[0] == 3
        code, out = await command(tmp_path, "request", "state.set", "path=/settings/x", "value=1", "--timeout", "0.3")
        assert (code, "--request-id" in out) == (4, True)
        for words in (["no-equals"], ["a=1", "a=2"], ["=1"], ["a=1", "--args", "{}"], ["--args", "[]"]):
            assert (await command(tmp_path, "request", "state.get", *words))[0] == 2


@pytest.mark.parametrize("words", [["request", "state.get"], ["pending"], ["tools"], ["pause"]])
async def test_a_server_that_is_not_there_is_told_on_one_line(tmp_path: Path, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    code, out = await command(tmp_path, *words, "--url", url, "--token", "x" * 32)
    assert (code, out.count("\n")) == (5, 1)
    assert out.startswith("agent-gate: service_unavailable: cannot connect to ")
    assert out.rstrip().endswith(": connection refused; is `agent-gate serve` running there?")
    assert "x" * 32 not in out


async def test_a_wrong_token_and_a_wrong_scheme_say_what_to_look_at(tmp_path: Path) -> None:
    async with at_home(tmp_path):
        code, out = await command(tmp_path, "pending", "--token", "x" * 32)
        assert (code, out.count("\n")) == (3, 1)
        assert "the token is not known here; check --token, or the tokens in the configuration" in out
        for words in (["pending"], ["request", "state.get"]):
            url = f"https://127.0.0.1:{port_of(tmp_path)}"
            code, out = await command(tmp_path, *words, "--url", url, "--token", "x" * 32)
            assert (code, out.count("\n")) == (5, 1)
            assert "does it speak TLS? without it write http://" in out


async def test_without_a_token_nothing_is_asked(tmp_path: Path) -> None:
    code, out = await command(tmp_path, "pending", "--url", "http://127.0.0.1:1")
    assert (code, out.count("\n")) == (3, 1)
    assert "not_authenticated" in out


async def test_a_new_user_gets_from_init_to_an_approved_call(tmp_path: Path) -> None:
    assert (await command(tmp_path, "init"))[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace("port: 8443", f"port: {port}"))
    token = load_config(config).approvers[0].token
    async with a_process(tmp_path) as server:
        told = await server.told("serving")
        words = ("request", "state.set", "path=/settings/theme", "value=dark", "--json")
        waiting = asyncio.create_task(command(tmp_path, *words))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=told["url"], headers=headers, trust_env=False) as me:
            async with asyncio.timeout(START_S):
                while not (found := (await me.get("/api/v1/pending")).json()["pending"]):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert (await me.post(f"/api/v1/pending/{found[0]['call_id']}/approve", json={})).status_code == 200
            assert (await me.get("/console")).status_code in (200, 303)
        code, out = await waiting
        assert (code, json.loads(out)["status"]) == (0, "success")
