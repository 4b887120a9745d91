"""The gate as a library: runs made, replayed and verified without a command line, and arguments by name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import (
    Gate,
    ReplayError,
    ToolError,
    load_plan,
    load_policy,
    open_gate,
    replay_run,
    run_plan,
    tool,
    transition,
    verify_run,
)
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, agent, counter, rows, sender

POLICY: dict[str, Any] = {
    "tools": {"fs.read": {"allow_paths": ["./**"]}, "fs.write": {"allow_paths": ["./out/**"]}},
    "rules": [{"pattern": "counter.add*", "action": "allow"}],
    "boundary": "deny_by_default",
}
PLAN: dict[str, Any] = {
    "version": "1.0",
    "name": "copy",
    "steps": [
        {"id": "note", "tool": "fs.read", "args": {"path": "note.txt"}},
        {
            "tool": "fs.write",
            "args": {"path": "out/copy.txt", "content": "${steps.note.data.content}", "create_dirs": True},
        },
        {"tool": "counter.add", "args": {"n": 2}},
    ],
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "note.txt").write_text("water the plants\n")
    return tmp_path


def gate_at(work: Path, policy: Any = POLICY) -> Any:
    return open_gate(policy, work / "a.db", tools=[counter()], working_dir=work)


async def made_run(gate: Gate) -> str:
    result = await run_plan(gate, load_plan(PLAN))
    assert result.status == "completed", result
    return result.run_id


async def test_a_run_is_made_replayed_and_verified_without_the_command_line(work: Path) -> None:
    async with gate_at(work) as gate:
        run_id = await made_run(gate)
        (work / "out/copy.txt").unlink()
        replayed = await replay_run(gate, run_id)
        verified = await verify_run(gate, run_id)
        modes = {row["run_id"]: row["mode"] for row in rows(gate, "SELECT run_id, mode FROM runs")}
    assert (replayed.original_run_id, replayed.mismatches, replayed.changes) == (run_id, [], [])
    assert [step["result"]["status"] for step in replayed.steps] == ["success"] * 3
    assert replayed.steps[0]["result"]["data"]["content"] == "water the plants\n"
    assert not (work / "out/copy.txt").exists()
    assert (verified.ok, verified.problems) == (True, ())
    assert modes == {run_id: "run", replayed.run_id: "replay"}


@pytest.mark.parametrize("kind", ["mapping", "file", "policy"])
async def test_a_replay_lists_each_verdict_that_another_policy_would_change(work: Path, kind: str) -> None:
    stricter = {**POLICY, "tools": {"fs.read": {"allow_paths": ["./**"]}}}
    (work / "stricter.yaml").write_text("tools: {fs.read: {allow_paths: ['./**']}}\nboundary: deny_by_default\n")
    other: Any = {"mapping": stricter, "file": work / "stricter.yaml", "policy": load_policy(stricter)}[kind]
    async with gate_at(work) as gate:
        replayed = await replay_run(gate, await made_run(gate), other)
    flips = {change.step_index: change.what.rpartition(": ")[2] for change in replayed.changes}
    assert replayed.mismatches == []
    expected = {1: "allow would be deny"} | ({2: "allow would be deny"} if kind == "file" else {})
    assert flips == expected


async def test_what_was_changed_in_the_record_is_found_by_replay_and_by_verification(work: Path) -> None:
    async with gate_at(work) as gate:
        run_id = await made_run(gate)
        with closing(sqlite3.connect(work / "a.db", isolation_level=None)) as connection:
            connection.execute("UPDATE entries SET body = replace(body, 'water', 'drown') WHERE tool = 'fs.read'")
        replayed = await replay_run(gate, run_id)
        verified = await verify_run(gate, run_id)
    assert [(mismatch.code, mismatch.step_index) for mismatch in replayed.mismatches] == [(5004, 0), (4004, 0)]
    assert not verified.ok


@transition("counter.add")
def add_twice(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
    return {**state, "n": state.get("n", 0) + 2 * inputs["n"]}, ""


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], None),
        ([add_twice], "it leads to another state"),
        ([counter()], None),
    ],
)
async def test_pure_steps_are_done_again_by_the_tools_of_the_gate_that_replays(
    work: Path, tools: list[Any], words: str | None
) -> None:
    async with gate_at(work) as gate:
        run_id = await made_run(gate)
    async with open_gate(POLICY, work / "a.db", tools=tools, working_dir=work) as gate:
        replayed = await replay_run(gate, run_id)
    assert [mismatch.what for mismatch in replayed.mismatches] == ([words] if words else [])


async def test_a_run_that_nobody_made_is_4001(work: Path) -> None:
    async with gate_at(work) as gate:
        for look in (replay_run, verify_run):
            with pytest.raises(ReplayError, match="there is no run `nope`") as refused:
                await look(gate, "nope")
            assert refused.value.code == 4001


async def test_a_plan_may_spell_a_place_in_the_state_as_it_likes_and_still_replays_as_recorded(work: Path) -> None:
    paths = ["notes.today", "/notes/today", "~", "notes.${steps.seen.data}"]
    steps = [{"tool": "state.get", "args": {"path": path}} for path in paths]
    seen = {"id": "seen", "tool": "state.set", "args": {"path": "notes.today", "value": "rain"}}
    plan = load_plan({"version": "1.0", "name": "spelt", "steps": [seen, *steps]})
    async with open_gate(ALLOW_ALL, work / "a.db") as gate:
        result = await run_plan(gate, plan, fail_fast=False)
        replayed = await replay_run(gate, result.run_id)
    assert [outcome.ok for outcome in result.outcomes][:3] == [True] * 3
    assert replayed.mismatches == []


@tool("lamp.set", effect="write", risk="low", cost=0)
async def lamp(mode: str = "off", project: str = "", wait: bool = False) -> Json:
    return {"mode": mode, "project": project, "wait": wait}


@pytest.mark.parametrize("said", [{"mode": "bright"}, {"project": "home"}, {"wait": True}, {"mode": None}])
async def test_an_argument_with_the_name_of_an_option_is_refused_by_name_and_the_message_tells_the_way(
    tmp_path: Path, said: dict[str, Json]
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, lamp) as gate:
        with pytest.raises(ToolError) as refused:
            await gate.call("lamp.set", **said)
        assert rows(gate, "SELECT * FROM tool_calls") == []
    (name,) = said
    assert str(refused.value) == (
        f"bad_arguments: `{name}` is an argument of `lamp.set` and an option of the call;"
        f' give the arguments as one mapping: gate.call("lamp.set", {{"{name}": …}})'
    )


async def test_in_a_mapping_every_name_is_the_tools_and_every_keyword_the_calls(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, lamp, agent=agent(projects=("*",))) as gate:
        outcome = await gate.call("lamp.set", {"mode": "bright", "project": "x"}, mode="interactive", wait=True)
        assert outcome.data == {"mode": "bright", "project": "x", "wait": False}
        with pytest.raises(ToolError, match="mode `bright` is unknown"):
            await gate.call("lamp.set", {"mode": "dim"}, mode="bright")


async def test_an_option_that_no_argument_is_named_after_is_said_beside_arguments(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        outcome = await gate.call("mail.send", text="hi", mode="interactive", request_id="r1", wait=True)
    assert (outcome.request_id, outcome.data) == ("r1", {"sent": "hi"})


async def test_a_file_is_appended_to_by_a_mapping(tmp_path: Path) -> None:
    async with open_gate(
        {"tools": {"fs.write": {"allow_paths": ["./**"]}}}, tmp_path / "a.db", working_dir=tmp_path
    ) as g:
        with pytest.raises(ToolError, match=r"gate\.call\(\"fs.write\", \{\"mode\""):
            await g.call("fs.write", path="a.txt", content="x", mode="append")
        for _ in range(2):
            assert (await g.call("fs.write", {"path": "a.txt", "content": "x", "mode": "append"})).ok
    assert (tmp_path / "a.txt").read_text() == "xx"
