"""`agent-gate mcp` as the official client meets it: tools, denials, questions to people, and ends of every kind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import yaml
from mcp.shared.exceptions import MCPError

from tests.gates import PATIENCE_S, until
from tests.mcp_clients import COMMAND, a_client, outcome_of, text_of
from tests.serving import Running, Site, a_site

POLICY: dict[str, Any] = {
    "tools": {
        "fs.read": {"allow_paths": ["./notes/**"]},
        "fs.write": {"allow_paths": ["./notes/**"]},
    },
    "rules": [{"pattern": "fs.write(*)", "action": "ask"}, {"pattern": "state.*", "action": "allow"}],
}
NOTE = {"path": "notes/a.txt", "content": "x", "mode": "append"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "b.txt").write_text("hello")
    return a_site(tmp_path, POLICY)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A directory with a policy and nothing else."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "b.txt").write_text("hello")
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    return tmp_path


@contextmanager
def raw(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The process by itself, for a test that writes every line of its own."""
    with subprocess.Popen(
        [*COMMAND, *options],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str], *messages: Any) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def a_call(id: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def answer(server: Running, call_id: str, verb: str = "approve") -> None:
    async with server.people() as people:
        (await people.post(f"/api/v1/pending/{call_id}/{verb}")).raise_for_status()


def rows(db: Path, sql: str) -> list[dict[str, Any]]:
    """What any SQLite client sees."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


def statuses(db: Path) -> list[str]:
    return [row["status"] for row in rows(db, "SELECT status FROM entries WHERE kind = 'settled' ORDER BY id")]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_lists_the_tools_and_calls_them_through_the_gate(bare: Path, mode: str) -> None:
    async with a_client(bare, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        read = await client.call_tool("fs_read", {"path": "notes/b.txt"})
        denied = await client.call_tool("fs_read", {"path": "/etc/passwd"})
        wrong = await client.call_tool("fs_read", {"file": "notes/b.txt"})
        with pytest.raises(MCPError, match="unknown_tool") as unknown:
            await client.call_tool("no_such_tool", {})
    assert {"fs_read", "fs_write", "state_get", "state_set", "gate_result"} <= set(tools)
    assert {"http_get", "shell_run"}.isdisjoint(tools)
    assert json.loads(text_of(read))["content"] == "hello"
    assert outcome_of(read)["status"] == "success"
    assert (denied.is_error, outcome_of(denied)["error"]["code"]) == (True, 1002)
    assert text_of(denied).startswith("denied (1002 path_denied): `/etc/passwd` is outside allow_paths")
    assert (wrong.is_error, outcome_of(wrong)["error"]["code"]) == (True, 2002)
    assert unknown.value.error.code == -32602
    assert statuses(bare / "agent-gate.db") == ["success", "denied", "error", "error"]


async def test_without_a_configuration_nobody_can_be_asked_and_the_answer_says_so(bare: Path) -> None:
    async with a_client(bare) as client:
        result = await client.call_tool("fs_write", NOTE)
    assert (result.is_error, outcome_of(result)["status"]) == (True, "denied")
    assert "nobody can be asked here" in text_of(result)


async def test_an_approval_from_another_process_serves_the_repeated_call_once(site: Site) -> None:
    note = site.directory / "notes" / "a.txt"
    with Running(site) as server:
        async with a_client(site.directory, "-c", "config.yaml") as client:
            asked = await client.call_tool("fs_write", NOTE)
            call_id = outcome_of(asked)["call_id"]
            still = await client.call_tool("fs_write", NOTE)
            other = await client.call_tool("fs_write", {**NOTE, "content": "y"})
            await answer(server, call_id)
            done = await client.call_tool("fs_write", NOTE)
            written = note.read_text()
            again = await client.call_tool("fs_write", NOTE)
    assert (asked.is_error, outcome_of(asked)["status"]) == (False, "pending_approval")
    assert f"fs.write({note})" in text_of(asked)
    assert "who can answer: anna" in text_of(asked)
    assert f"gate_result with call_id {call_id}" in text_of(asked)
    assert outcome_of(still)["call_id"] == call_id != outcome_of(other)["call_id"]
    assert (outcome_of(done)["status"], outcome_of(done)["call_id"], written) == ("success", call_id, "x")
    assert (outcome_of(again)["status"], outcome_of(again)["call_id"] == call_id) == ("pending_approval", False)
    assert note.read_text() == "x"


async def test_a_no_is_told_to_the_repeated_call(site: Site) -> None:
    with Running(site) as server:
        async with a_client(site.directory, "-c", "config.yaml") as client:
            asked = await client.call_tool("fs_write", NOTE)
            await answer(server, outcome_of(asked)["call_id"], "deny")
            refused = await client.call_tool("fs_write", NOTE)
    assert (refused.is_error, outcome_of(refused)["error"]["code"]) == (True, 1015)
    assert text_of(refused).startswith("denied (1015 denied_by_person): `anna` said no")


async def test_a_client_that_follows_the_progress_waits_for_the_person(site: Site) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def follow(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        if len(told) == 1:
            async with server.people() as people:
                (pending,) = (await people.get("/api/v1/pending")).json()["pending"]
            await answer(server, pending["call_id"])

    with Running(site) as server:
        async with a_client(site.directory, "-c", "config.yaml", "--wait", "20") as client:
            done = await client.call_tool("fs_write", NOTE, progress_callback=follow)
    assert outcome_of(done)["status"] == "success"
    assert told[0] == (0.0, 20.0, "waiting for a person to agree")


async def test_a_wait_without_an_answer_ends_as_pending(site: Site) -> None:
    async def follow(progress: float, total: float | None, message: str | None) -> None:
        pass

    async with a_client(site.directory, "-c", "config.yaml", "--wait", "0.1") as client:
        asked = await client.call_tool("fs_write", NOTE, progress_callback=follow)
    assert outcome_of(asked)["status"] == "pending_approval"


async def test_the_result_of_a_call_is_for_its_own_agent(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    site = a_site(tmp_path, POLICY, agents=2)
    with Running(site) as server:
        async with (
            a_client(site.directory, "-c", "config.yaml", "--agent", "bot-0") as client,
            a_client(site.directory, "-c", "config.yaml", "--agent", "bot-1") as other,
        ):
            call_id = outcome_of(await client.call_tool("fs_write", NOTE))["call_id"]
            waiting = await client.call_tool("gate_result", {"call_id": call_id})
            await answer(server, call_id)
            theirs = await other.call_tool("gate_result", {"call_id": call_id})
            nobodys = await other.call_tool("gate_result", {"call_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
            done = await client.call_tool("gate_result", {"call_id": call_id})
            for same in (waiting, done):
                assert outcome_of(same)["call_id"] == call_id
            assert outcome_of(await other.call_tool("fs_write", NOTE))["call_id"] != call_id
    assert outcome_of(waiting)["status"] == "pending_approval"
    assert outcome_of(done)["status"] == "success"
    assert (theirs.is_error, text_of(theirs).replace(call_id, "X")) == (
        True,
        text_of(nobodys).replace("01ARZ3NDEKTSV4RRFFQ69G5FAV", "X"),
    )


async def test_a_request_id_of_the_client_makes_a_repeated_call_safe(bare: Path) -> None:
    meta: Any = {"agent-gate/request_id": "one"}
    async with a_client(bare) as client:
        first = await client.call_tool("state_set", {"path": "/a", "value": 1}, meta=meta)
        again = await client.call_tool("state_set", {"path": "/a", "value": 1}, meta=meta)
        other = await client.call_tool("state_set", {"path": "/a", "value": 2}, meta=meta)
        with pytest.raises(MCPError, match="must be a text"):
            await client.call_tool("state_get", {}, meta=cast("Any", {"agent-gate/request_id": 7}))
    assert outcome_of(first)["request_id"] == "one"
    assert outcome_of(again)["call_id"] == outcome_of(first)["call_id"]
    assert (other.is_error, outcome_of(other)["error"]["code"]) == (True, 2002)


async def test_a_question_survives_the_kill_of_the_process_and_is_performed_once(site: Site) -> None:
    note = site.directory / "notes" / "a.txt"
    with raw(site.directory, "-c", "config.yaml") as process:
        say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, a_call(1, "fs_write", **NOTE))
        heard(process)
        call_id = heard(process)["result"]["structuredContent"]["call_id"]
        process.kill()
        process.wait()
    with Running(site) as server:
        assert server.told["taken_over"] == 0
        assert not note.exists()
        await answer(server, call_id)  # which lets the server take it over: the process that asked is gone
        await until(lambda: statuses(site.db) == ["success"])
        async with a_client(site.directory, "-c", "config.yaml") as client:
            done = await client.call_tool("fs_write", NOTE)
    assert (outcome_of(done)["status"], outcome_of(done)["call_id"], note.read_text()) == ("success", call_id, "x")


async def test_an_outcome_that_was_reached_after_the_client_left_waits_for_it(site: Site) -> None:
    note = site.directory / "notes" / "a.txt"
    with Running(site) as server, raw(site.directory, "-c", "config.yaml") as process:
        say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, a_call(1, "fs_write", **NOTE))
        heard(process)
        call_id = heard(process)["result"]["structuredContent"]["call_id"]
        await answer(server, call_id)
        await until(lambda: statuses(site.db) == ["success"])
        process.communicate(timeout=PATIENCE_S)
        async with a_client(site.directory, "-c", "config.yaml") as client:
            done = await client.call_tool("fs_write", NOTE)
            again = await client.call_tool("fs_write", NOTE)
    assert (outcome_of(done)["status"], outcome_of(done)["call_id"], note.read_text()) == ("success", call_id, "x")
    assert outcome_of(again)["status"] == "pending_approval"


async def test_an_act_that_a_kill_cut_short_is_unknown_and_not_done_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        url = {"url": f"http://127.0.0.1:{port}/"}
        rules = [{"pattern": "http.get(*)", "action": "ask"}]
        site = a_site(tmp_path, {"tools": {"http.get": fetches_from(port)}, "rules": rules})
        with Running(site) as server:
            with raw(tmp_path, "-c", "config.yaml") as process:
                say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
                say(process, a_call(1, "http_get", **url))
                heard(process)
                call_id = heard(process)["result"]["structuredContent"]["call_id"]
                await answer(server, call_id)
                peer, _ = listener.accept()
                process.kill()
                process.wait()
            peer.close()
            async with a_client(tmp_path, "-c", "config.yaml") as client:
                lost = await client.call_tool("http_get", url)
                again = await client.call_tool("http_get", url)
            listener.settimeout(0)
            with pytest.raises(BlockingIOError):
                listener.accept()
    assert (lost.is_error, outcome_of(lost)["status"], outcome_of(lost)["call_id"]) == (True, "unknown", call_id)
    assert text_of(lost).startswith("unknown (2007 outcome_unknown): ")
    assert outcome_of(again)["status"] == "pending_approval"


def fetches_from(port: int) -> dict[str, Any]:
    """A guard that lets loopback be fetched from, at one port."""
    return {
        "allow_domains": ["127.0.0.1"],
        "allow_schemes": ["http"],
        "allow_ports": [port],
        "deny_private_ips": False,
    }


def closes_its_end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.parametrize(
    "end",
    [
        closes_its_end,
        lambda process: process.send_signal(signal.SIGTERM),
        lambda process: process.send_signal(signal.SIGINT),
    ],
    ids=["end of input", "SIGTERM", "SIGINT"],
)
def test_at_its_end_what_runs_is_settled_and_answered(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"tools": {"http.get": fetches_from(port)}}))
        with raw(tmp_path) as process:
            say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            say(process, a_call(1, "http_get", url=f"http://127.0.0.1:{port}/"))
            heard(process)
            listener.settimeout(PATIENCE_S)
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(PATIENCE_S)
                peer.recv(4096)
                end(process)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                answer = heard(process)
            assert process.wait(timeout=PATIENCE_S) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
    assert answer["result"]["structuredContent"]["data"]["body"] == "ok"
    assert statuses(tmp_path / "agent-gate.db") == ["success"]


def test_an_end_leaves_questions_open_and_answers_who_waits(site: Site) -> None:
    call = a_call(1, "fs_write", **NOTE)
    call["params"]["_meta"] = {"progressToken": "p"}
    with raw(site.directory, "-c", "config.yaml", "--wait", "600") as process:
        say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call)
        heard(process)
        assert heard(process)["method"] == "notifications/progress"
        process.terminate()
        said = heard(process)
        while "result" not in said:
            said = heard(process)
        assert process.wait(timeout=PATIENCE_S) == 0
    assert said["result"]["structuredContent"]["status"] == "pending_approval"
    pending = rows(site.db, "SELECT call_id, resolution FROM pending_requests")
    assert pending == [{"call_id": said["result"]["structuredContent"]["call_id"], "resolution": None}]


def test_noise_is_answered_with_errors_and_the_next_call_with_its_result(bare: Path) -> None:
    noise: list[Any] = [
        "{",
        '"text"',
        "[]",
        '{"jsonrpc": "1.0", "id": 5, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 6, "method": "ping", "id": 7}',
        '{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {"a": NaN}}',
        "x" * 3_000_000,
    ]
    with raw(bare) as process:
        # A client reads while it writes: neither end may wait for the other with full pipes.
        writer = threading.Thread(
            target=say,
            args=(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *noise, ""),
        )
        writer.start()
        answers = [heard(process) for _ in range(1 + len(noise))]
        writer.join()
        say(process, a_call(9, "fs_read", path="notes/b.txt"))
        result = heard(process)
        say(
            process, {"jsonrpc": "2.0", "id": 10, "method": "no/such"}, {**a_call(11, "fs_read"), "params": {"name": 1}}
        )
        refused = {said["id"]: said["error"]["code"] for said in (heard(process), heard(process))}
    errors = [said["error"]["code"] for said in answers if "error" in said]
    assert sorted(errors) == [-32700, -32700, -32700, -32600, -32600, -32600, -32600]
    assert {said["id"] for said in answers if "error" in said} == {None, 5}
    assert (result["id"], result["result"]["isError"]) == (9, False)
    assert refused == {10: -32601, 11: -32602}


async def test_many_calls_at_once_are_each_answered_with_their_own_result(bare: Path) -> None:
    answers: dict[int, Any] = {}

    async def call(number: int) -> None:
        result = await client.call_tool("state_set", {"path": f"/n{number}", "value": number})
        answers[number] = outcome_of(result)["state_diff"]

    async with a_client(bare) as client, anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(call, number)
    assert answers == {n: [{"op": "add", "path": f"/n{n}", "value": n}] for n in range(100)}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["-p", "missing.yaml"], 3, "missing.yaml: no such file"),
        (["-c", "missing.yaml"], 3, "missing.yaml: no such file"),
        (["-c", "config.yaml"], 3, "name one by --agent: `bot-0`, `bot-1`"),
        (["-c", "config.yaml", "--agent", "bot-9"], 3, "there is no agent `bot-9`; name one of `bot-0`, `bot-1`"),
        (["--working-dir", "missing"], 3, "`missing` cannot be the working directory"),
        (["--log-level", "loud"], 2, "--log-level `loud` is none of"),
        (["--wait", "-1"], 2, "--wait"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line_and_never_on_the_wire(
    tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    agents = [{"id": f"bot-{n}", "token": f"token-of-bot-{n}-0123456789abcdef"} for n in range(2)]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"gateway": {"host": "127.0.0.1", "port": 8443}, "agents": agents})
    )
    done = subprocess.run(
        [*COMMAND, *options], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert words in done.stderr


def test_with_json_even_that_goes_to_standard_error(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, json.loads(done.stderr)["error"]["code"]) == (3, "", 6001)


async def test_a_client_that_cancels_ends_its_wait_and_not_the_call(site: Site) -> None:
    call = a_call(1, "fs_write", **NOTE)
    call["params"]["_meta"] = {"progressToken": "p"}
    with Running(site) as server, raw(site.directory, "-c", "config.yaml", "--wait", "600") as process:
        say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call)
        heard(process)
        assert heard(process)["method"] == "notifications/progress"
        say(process, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        said = heard(process)
        while "method" in said:
            said = heard(process)
        assert said["id"] == 2
        (question,) = rows(site.db, "SELECT call_id, resolution FROM pending_requests")
        assert question["resolution"] is None
        await answer(server, question["call_id"])
        say(process, a_call(3, "fs_write", **NOTE))
        done = heard(process)["result"]["structuredContent"]
    assert (done["status"], done["call_id"]) == ("success", question["call_id"])


@pytest.mark.parametrize("by_signal", [False, True])
def test_another_policy_offers_other_tools_and_the_client_is_told(bare: Path, by_signal: bool) -> None:
    with raw(bare) as process:
        say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        say(process, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        heard(process)
        before = {tool["name"] for tool in heard(process)["result"]["tools"]}
        (bare / "policy.yaml").write_text(yaml.safe_dump({"tools": {"fs.read": POLICY["tools"]["fs.read"]}}))
        if by_signal:
            process.send_signal(signal.SIGHUP)
        assert heard(process)["method"] == "notifications/tools/list_changed"
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        after = {tool["name"] for tool in heard(process)["result"]["tools"]}
    assert before - after == {"fs_write"}


ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "mcp"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A directory as the guide has it."""
    (tmp_path / "policy.yaml").write_text((EXAMPLES / "policy.yaml").read_text())
    (tmp_path / "shopping.txt").write_text("milk")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary.txt").write_text("dear diary")
    return tmp_path


def test_the_guide_shows_the_examples() -> None:
    guide = (ROOT / "docs" / "guides" / "mcp.md").read_text()
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL))
    assert blocks == {"json": (EXAMPLES / "desktop.json").read_text(), "python": (EXAMPLES / "client.py").read_text()}


def test_the_program_of_the_guide_runs(notes: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "client.py"), str(notes)]
    # A client hands its home on to the server, and little else.
    env = {**os.environ, "HOME": str(notes.parent)}
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=env)
    tools, read, denied = done.stdout.splitlines()
    assert tools.startswith("tools: fs_read, fs_write, state_at, state_delete, ")
    assert json.loads(read.removeprefix("read: "))["content"] == "milk"
    assert denied.startswith("read: denied (1002 path_denied): ")
    assert "dear diary" not in done.stdout


async def test_a_client_with_the_settings_of_the_guide_finds_its_tools(notes: Path) -> None:
    server = json.loads((EXAMPLES / "desktop.json").read_text())["mcpServers"]["notes"]
    assert server["command"] == "agent-gate"
    _, *options = [str(notes) if option == "/home/anna/notes" else option for option in server["args"]]
    async with a_client(notes / "private", *options) as client:
        assert "fs_write" in {tool.name for tool in (await client.list_tools()).tools}
    assert (notes / "agent-gate.db").exists()
