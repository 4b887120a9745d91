"""The gate's own files are out of reach through every door, whatever the policy allows and whoever started it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate import open_gate
from agent_gate.client import GateClient
from agent_gate.gate.bounds import GateBounds
from agent_gate.resolve.installation import PACKAGE
from tests.gates import code_of, entries
from tests.mcp_clients import a_client, outcome_of
from tests.servers import BOT_TOKEN, CONFIG, a_process

EVERYTHING: dict[str, Any] = {
    "version": 1,
    "tools": {
        "fs.read": {"allow_paths": ["/**"], "allow_hidden": True},
        "fs.write": {"allow_paths": ["/**"], "allow_hidden": True},
    },
    "max_calls_per_tool": 1_000,
}
PROTECTED = 1021
PROBE = "probe-of-a-test.txt"

Call = tuple[str, Mapping[str, Any]]
Codes = list[int | None]
Door = Callable[[Path, list[Call]], Awaitable[Codes]]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with what starts of the gate leave behind, and a user's home beside it."""
    home, work = tmp_path / "home", tmp_path.resolve() / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AGENT_GATE_DB", str(work / "agent-gate.db"))
    monkeypatch.chdir(work)
    (work / "config.yaml").write_text(CONFIG)
    for name in ("policy.yaml", "other.yaml"):
        (work / name).write_text(json.dumps(EVERYTHING))
    (work / "permissions.yaml").write_text("rules: [{pattern: x, action: deny}]\n")
    (work / "notes.txt").write_text("notes")
    (work / "sub").mkdir()
    (work / "sub/config.yaml").write_text("colour: green\n")
    elsewhere = work.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("config.yaml", "policy.yaml"):
        (elsewhere / name).write_text(json.dumps({"rules": []}))
    (work / "old.db").write_bytes(b"SQLite format 3\0")
    (work / "old.db.d").mkdir()
    (work / "old.db.d/secret.key").write_bytes(b"k" * 32)
    yield work
    for directory in (PACKAGE, sys.prefix):
        (Path(directory) / PROBE).unlink(missing_ok=True)


async def by_library(work: Path, calls: list[Call]) -> Codes:
    async with open_gate(work / "policy.yaml", work / "agent-gate.db") as gate:
        outcomes = [await gate.call(tool, args) for tool, args in calls]
    return list(map(code_of, outcomes))


def command(*words: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "agent_gate", *map(str, words)], capture_output=True, check=False, timeout=120
    )
    assert b"Traceback" not in done.stderr
    return done.stdout


def codes_of_run(work: Path, calls: list[Call], *options: object) -> Codes:
    """Run from elsewhere, so that nothing depends on the directory that the command is started in."""
    plan = work / "plan.yaml"
    plan.write_text(json.dumps({"version": "1.0", "name": "all", "steps": [{"tool": t, "args": a} for t, a in calls]}))
    words = options or ("-p", work / "policy.yaml")
    told = json.loads(command("run", plan, *words, "--working-dir", work, "--no-fail-fast", "--json"))
    results = [step.get("result", step) for step in told["steps"]]
    return [result["error"]["code"] if result.get("error") else None for result in results]


async def by_run(work: Path, calls: list[Call]) -> Codes:
    return await asyncio.to_thread(codes_of_run, work, calls)


async def by_simulation(work: Path, calls: list[Call]) -> Codes:
    return await asyncio.to_thread(codes_of_run, work, calls, "-p", work / "policy.yaml", "--simulate", "--with-reads")


async def by_check(work: Path, calls: list[Call]) -> Codes:
    lines = work.parent / "calls.jsonl"
    lines.write_text("".join(json.dumps({"tool": tool, "args": args}) + "\n" for tool, args in calls))
    words = ("check", "--calls", lines, "-p", work / "policy.yaml", "--working-dir", work, "--json")
    told = map(json.loads, (await asyncio.to_thread(command, *words)).splitlines())
    return [line["error"]["code"] if line.get("error") else None for line in told]


async def by_mcp(work: Path, calls: list[Call]) -> Codes:
    async with a_client(work.parent, "--working-dir", str(work)) as client:
        outcomes = [outcome_of(await client.call_tool(tool.replace(".", "_"), dict(args))) for tool, args in calls]
    return [outcome["error"]["code"] if outcome.get("error") else None for outcome in outcomes]


async def by_serve(work: Path, calls: list[Call]) -> Codes:
    async with a_process(work) as server:
        url = (await server.told("serving"))["url"]
        async with GateClient(url, BOT_TOKEN) as bot:
            outcomes = [await bot.call(tool, **args) for tool, args in calls]
    return list(map(code_of, outcomes))


DOORS = (by_library, by_run, by_simulation, by_check, by_mcp, by_serve)

TABLE = {
    # path: may it be read, may it be written
    "config.yaml": (False, False),
    "policy.yaml": (True, False),
    "permissions.yaml": (True, False),
    "agent-gate.db": (False, False),
    "agent-gate.db-journal": (False, False),
    "agent-gate.db-wal": (False, False),
    "agent-gate.db.anchor": (False, False),
    "agent-gate.db.anchor.new": (False, False),
    "agent-gate.db.d/secret.key": (False, False),
    "agent-gate.db.d/new": (False, False),
    "old.db": (False, False),
    "old.db-journal": (False, False),
    "old.db.d/secret.key": (False, False),
    "{elsewhere}/config.yaml": (False, False),
    "{elsewhere}/policy.yaml": (True, False),
    "{elsewhere}/gate.db": (False, False),
    "{elsewhere}/gate.db-journal": (False, False),
    "{state}/agent-gate/own-files.jsonl": (False, False),
    "{state}/agent-gate/new": (False, False),
    ".claude/settings.json": (True, False),
    ".cursor/hooks.json": (True, False),
    ".github/hooks/new.json": (True, False),
    ".mcp.json": (True, False),
    "{home}/.codex/config.toml": (True, False),
    "{home}/.claude.json": (True, False),
    f"{PACKAGE}/{PROBE}": (True, False),
    f"{sys.prefix}/{PROBE}": (True, False),
    "notes.txt": (True, True),
    "other.yaml": (True, True),
    "sub/config.yaml": (True, True),
    "sub/agent-gate.db-journal": (True, True),
    "config.yaml.bak": (True, True),
    ".claude/notes.md": (True, True),
    "{elsewhere}/notes.txt": (True, True),
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__.removeprefix("by_"))
async def test_every_door_protects_the_same_files(door: Door, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, home, elsewhere = work.parent / "state", work.parent / "home", work.parent / "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    await another_start(elsewhere)
    paths = [path.format(state=state, home=home, elsewhere=elsewhere) for path in TABLE]
    before = {path: content(work / path) for path in paths}
    calls: list[Call] = [("fs.read", {"path": path}) for path in paths]
    calls += [("fs.write", {"path": path, "content": "x", "create_dirs": True}) for path in paths]
    refused = [code == PROTECTED for code in await door(work, calls)]
    reads, writes = refused[: len(paths)], refused[len(paths) :]
    may = {path: (not read, not write) for path, read, write in zip(paths, reads, writes, strict=True)}
    assert may == dict(zip(paths, TABLE.values(), strict=True))
    for path, (_, may_write) in zip(paths, TABLE.values(), strict=True):
        if not may_write and "agent-gate" not in path:  # its own ledger is written by the gate itself
            assert content(work / path) == before[path]


async def another_start(elsewhere: Path) -> None:
    """A gate of the same user that has come and gone."""
    own = [elsewhere / "config.yaml"]
    async with open_gate(elsewhere / "policy.yaml", elsewhere / "gate.db", working_dir=elsewhere, own_files=own):
        pass


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def test_a_run_without_a_configuration_neither_reads_nor_writes_the_one_that_lies_there(work: Path) -> None:
    calls: list[Call] = [
        ("fs.read", {"path": "config.yaml"}),
        ("fs.write", {"path": "config.yaml", "content": "approvers: []"}),
    ]
    assert codes_of_run(work, calls) == [PROTECTED, PROTECTED]
    assert (work / "config.yaml").read_text() == CONFIG


def test_a_run_under_another_policy_does_not_write_the_one_that_lies_there(work: Path) -> None:
    call = ("fs.write", {"path": "policy.yaml", "content": "{}"})
    assert codes_of_run(work, [call], "-p", work / "other.yaml") == [PROTECTED]
    assert codes_of_run(work, [("fs.write", {"path": "other.yaml", "content": "{}"})], "-p", work / "other.yaml") == [
        PROTECTED
    ]


def test_a_run_does_not_write_its_own_plan(work: Path) -> None:
    assert codes_of_run(work, [("fs.write", {"path": "plan.yaml", "content": "{}"})]) == [PROTECTED]


def test_a_configuration_that_a_run_names_is_out_of_reach_also_from_another_directory(work: Path) -> None:
    (work / "sub/home.yaml").write_text("services: {homeassistant: {url: 'http://127.0.0.1:9', token: t}}\n")
    calls: list[Call] = [("fs.read", {"path": "sub/home.yaml"}), ("fs.read", {"path": "notes.txt"})]
    codes = codes_of_run(work, calls, "-p", "policy.yaml", "-c", "sub/home.yaml")
    assert codes == [PROTECTED, None]


async def test_an_mcp_server_without_a_configuration_protects_the_one_that_lies_there(work: Path) -> None:
    calls: list[Call] = [("fs.read", {"path": "config.yaml"}), ("fs.write", {"path": "config.yaml", "content": "x"})]
    assert await by_mcp(work, calls) == [PROTECTED, PROTECTED]
    assert (work / "config.yaml").read_text() == CONFIG


async def test_a_file_that_merely_has_the_name_stays_usable(work: Path) -> None:
    (work / "config.yaml").write_text("colour: green\n")
    (work / "policy.yaml").unlink()
    async with open_gate(EVERYTHING, work / "agent-gate.db") as gate:
        assert code_of(await gate.call("fs.read", path="config.yaml")) is None
        assert (await gate.call("fs.write", path="config.yaml", content="colour: red\n")).ok
        assert (await gate.call("fs.write", path="policy.yaml", content="who: may what\n")).ok


async def test_a_configuration_that_comes_later_is_protected_and_the_record_says_so(work: Path) -> None:
    (work / "config.yaml").unlink()
    async with open_gate(EVERYTHING, work / "agent-gate.db", bounds=GateBounds(own_files_fresh_s=-1.0)) as gate:
        assert code_of(await gate.call("fs.read", path="config.yaml")) == 2003
        (work / "config.yaml").write_text(CONFIG)
        assert code_of(await gate.call("fs.read", path="config.yaml")) == PROTECTED
        assert entries(gate, "settled")[-1]["body"]["facts"]["found"]["own"] == "secret"


async def test_what_init_makes_elsewhere_is_out_of_reach_before_it_is_ever_started(work: Path) -> None:
    new = work.parent / "new"
    await asyncio.to_thread(command, "init", new, "--db", new / "gate.db")
    calls: list[Call] = [("fs.read", {"path": f"{new}/{name}"}) for name in ("config.yaml", "gate.db", "policy.yaml")]
    assert await by_library(work, calls) == [PROTECTED, PROTECTED, None]


async def test_a_home_that_cannot_be_written_does_not_stop_a_start(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "file").write_text("")
    for state in ("/proc/nowhere", str(work / "file"), "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        assert await by_library(work, [("fs.read", {"path": "notes.txt"})]) == [None]
