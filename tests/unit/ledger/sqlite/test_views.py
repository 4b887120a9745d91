"""The documents' views: every column holds what it says, and what people ask of them is found by an index."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, load_plan, run_plan, tool
from agent_gate.history.erase import erase_call
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.record import INLINE_DATA_BYTES_MAX
from agent_gate.model.tool import Json
from agent_gate.system.clock import RandomIds, SystemClock
from tests.gates import (
    HandClock,
    Row,
    a_gate,
    approve,
    counter,
    deny,
    outcome_of,
    pending,
    reader,
    rows,
    run_elsewhere,
    sender,
)

POLICY: Mapping[str, Json] = {
    "rules": [
        {"pattern": "mail.send(no*)", "action": "deny", "description": "no means no"},
        {"pattern": "ask.*", "action": "ask"},
        {"pattern": "[!a]*", "action": "allow"},
    ],
}


class PassingClock(HandClock):
    """Later at every look, so that no two moments of a call are the same."""

    def now(self) -> float:
        self.advance(0.001)
        return super().now()


@tool("broken", effect="write", risk="low")
async def broken() -> None:
    raise RuntimeError("no power")


@tool("broken.read", effect="read", risk="low", cost=0)
async def broken_read() -> None:
    raise RuntimeError("no light")


def an_echo(name: str, effect: str) -> Any:
    @tool(name, effect=effect, risk="low", cost=0)
    async def echo(text: str, times: int = 1) -> dict[str, Json]:
        return {"text": text * times, "nothing": None}

    return echo


TOOLS = (
    sender([]),
    sender([], "ask.send"),
    reader([]),
    counter(),
    broken,
    broken_read,
    an_echo("echo.write", "write"),
    an_echo("echo.read", "read"),
)


async def calls_of_every_kind(gate: Gate) -> dict[str, Outcome]:
    """By what is special about each: who decided, what it did, how it ended, how large its result is."""
    made = {
        "read": await gate.call("note.read", text="a"),
        "write": await gate.call("mail.send", text="hi"),
        "state": await gate.call("counter.add", n=2),
        "denied": await gate.call("mail.send", text="no way"),
        "failed": await gate.call("broken"),
        "failed read": await gate.call("broken.read"),
        "malformed": await gate.call("note.read", text=7),
        "unknown tool": await gate.call("no.such.tool", x=1),
        "large": await gate.call("echo.write", text="x", times=INLINE_DATA_BYTES_MAX),
        "large read": await gate.call("echo.read", text="x", times=INLINE_DATA_BYTES_MAX),
    }
    approved = await pending(gate, "ask.send", {"text": "please"})
    await approve(gate, approved)
    refused = await pending(gate, "ask.send", {"text": "perhaps"})
    await deny(gate, refused)
    return made | {"approved": await outcome_of(gate, approved), "refused": await outcome_of(gate, refused)}


def by_call(gate: Gate, view: str) -> dict[str, Row]:
    return {row.get("call_id") or row["request_id"]: row for row in rows(gate, f"SELECT * FROM {view}")}


def told(outcome: Outcome) -> dict[str, Any]:
    """As every door tells it."""
    told: dict[str, Any] = json.loads(canonical(outcome.to_json()))
    return told


async def test_every_decision_is_told_with_its_reasons(tmp_path: Path) -> None:
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        made = await calls_of_every_kind(gate)
        results = by_call(gate, "tool_results")
    for name, outcome in made.items():
        decision = json.loads(results[outcome.call_id]["policy_decision_json"])
        assert decision["decision"] == told(outcome)["decision"], name
        if name not in ("malformed", "unknown tool"):
            assert decision["reasons"] == told(outcome)["reasons"] != [], name


async def test_a_call_that_was_never_judged_tells_what_was_wrong_with_it(tmp_path: Path) -> None:
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        made = await calls_of_every_kind(gate)
        results, log = by_call(gate, "tool_results"), by_call(gate, "audit_log")
    for name in ("malformed", "unknown tool"):
        call_id, error = made[name].call_id, told(made[name])["error"]
        reason = {"layer": error["stage"], "rule": error["name"], "text": error["detail"]}
        decision = {"decision": "deny", "reasons": [reason]}
        assert json.loads(results[call_id]["policy_decision_json"]) == decision
        assert (results[call_id]["status"], results[call_id]["error"]) == ("error", error["detail"])
        assert json.loads(log[call_id]["execution_result"]) == {"status": "error", "error": error}


async def test_what_a_call_returned_is_told_whatever_its_size(tmp_path: Path) -> None:
    sizes = [0, 1, *range(INLINE_DATA_BYTES_MAX - 30, INLINE_DATA_BYTES_MAX + 2), 200_000]
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        made = [
            await gate.call(name, text="é", times=times // 2) for times in sizes for name in ("echo.read", "echo.write")
        ]
        results, log = by_call(gate, "tool_results"), by_call(gate, "audit_log")
    for outcome in made:
        result = results[outcome.call_id]
        assert outcome.data is not None
        assert json.loads(result["output_json"]) == json.loads(log[outcome.call_id]["execution_result"]) == outcome.data
        assert result["output_hash"] == sha256_hex(result["output_json"].encode())


async def test_a_call_that_did_not_succeed_says_how_it_ended_and_why(tmp_path: Path) -> None:
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        made = await calls_of_every_kind(gate)
        results, log = by_call(gate, "tool_results"), by_call(gate, "audit_log")
    failed = {name: outcome for name, outcome in made.items() if not outcome.ok}
    assert len(failed) == 6
    for name, outcome in failed.items():
        status, error = outcome.status.value, told(outcome)["error"]
        assert json.loads(log[outcome.call_id]["execution_result"]) == {"status": status, "error": error}, name
        result = results[outcome.call_id]
        assert (result["status"], result["error"]) == (status, error["detail"]), name
        wanted = {"error": error} if status == "error" else None
        assert (result["output_json"] and json.loads(result["output_json"])) == wanted, name


async def test_arguments_hashes_and_moments_are_told_of_every_call(tmp_path: Path) -> None:
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        made = await calls_of_every_kind(gate)
        views = [by_call(gate, view) for view in ("tool_calls", "tool_results", "audit_log")]
    for name, outcome in made.items():
        call, result, entry = (view[outcome.call_id] for view in views)
        assert call["args_json"] == entry["args"], name
        if name == "unknown tool":  # nobody knows which of its arguments are secret
            assert (call["args_json"], result["input_hash"]) == (None, None)
        else:
            assert result["input_hash"] == sha256_hex(canonical(json.loads(call["args_json"]))), name
        assert call["created_at"] == result["started_at"] == told(outcome)["started_at"], name
        assert result["ended_at"] == entry["timestamp"] == told(outcome)["ended_at"], name


async def test_who_answered_is_told_also_where_the_process_that_asked_was_killed(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        @tool("ask.die", effect="write", risk="low")
        async def die():
            os.kill(os.getpid(), 9)

        async def main():
            async with a_gate(directory, ASK_ALL, die) as gate:
                question = await pending(gate, "ask.die")
                await approve(gate, question)
                await outcome_of(gate, question)
        """,
    )
    async with a_gate(tmp_path) as gate:
        (entry,) = rows(gate, "SELECT * FROM audit_log")
        (result,) = rows(gate, "SELECT * FROM tool_results")
    assert (entry["decision"], entry["resolution"], entry["resolved_by"]) == ("ask", "approved", "anna")
    assert entry["resolved_at"] <= entry["timestamp"]
    assert json.loads(entry["execution_result"])["status"] == "unknown"
    assert (result["status"], json.loads(result["output_json"])["error"]["code"]) == ("error", 2007)
    assert json.loads(result["policy_decision_json"])["reasons"] != []


async def test_of_an_erased_call_the_views_tell_what_its_header_does(tmp_path: Path) -> None:
    async with a_gate(tmp_path, POLICY, *TOOLS, clock=PassingClock()) as gate:
        assert isinstance(gate.ledger, SqliteLedger)
        made = await calls_of_every_kind(gate)
        for outcome in made.values():
            await erase_call(gate.ledger, outcome.call_id, by="anna", clock=gate.clock, ids=gate.ids)
        results, log, calls = (by_call(gate, view) for view in ("tool_results", "audit_log", "tool_calls"))
    for outcome in made.values():
        call, result, entry = calls[outcome.call_id], results[outcome.call_id], log[outcome.call_id]
        assert {name for name, value in entry.items() if value is not None} == {
            "id", "request_id", "timestamp", "tool_name", "agent_id",
        }  # fmt: skip
        assert (result["output_json"], result["error"], result["output_hash"]) == (None, None, None)
        assert json.loads(result["policy_decision_json"]) == {"decision": None, "reasons": None}
        assert call["created_at"] == result["started_at"] <= result["ended_at"]


async def test_a_run_that_is_under_way_counts_the_steps_that_have_ended(tmp_path: Path) -> None:
    go_on, reached = asyncio.Event(), asyncio.Event()

    @tool("wait", effect="read", risk="low", cost=0)
    async def wait() -> None:
        reached.set()
        await go_on.wait()

    steps = [{"tool": name, "args": args} for name, args in (
        ("mail.send", {"text": "hi"}), ("mail.send", {"text": "no"}), ("broken", {}), ("broken.read", {}), ("wait", {}),
    )]  # fmt: skip
    plan = load_plan({"version": "1.0", "name": "slow", "steps": steps})
    async with a_gate(tmp_path, POLICY, *TOOLS, wait) as gate:
        running = asyncio.create_task(run_plan(gate, plan, fail_fast=False))
        await reached.wait()
        (under_way,) = rows(gate, "SELECT * FROM runs")
        go_on.set()
        await running
        (ended,) = rows(gate, "SELECT * FROM runs")
    counts = ("status", "total_steps", "completed_steps", "denied_steps", "failed_steps")
    assert [under_way[name] for name in counts] == ["running", 5, 1, 1, 2]
    assert [ended[name] for name in counts] == ["failed", 5, 2, 1, 2]


QUESTIONS = {
    "SELECT * FROM audit_log ORDER BY timestamp DESC LIMIT 10": "SCAN s USING INDEX entries_timestamp",
    "SELECT * FROM audit_log WHERE timestamp >= 'm'": "SEARCH s USING INDEX entries_timestamp (at>?)",
    "SELECT * FROM audit_log WHERE request_id = 'r'": "SEARCH s USING INDEX entries_request (<expr>=?)",
    "SELECT * FROM audit_log WHERE tool_name = 't'": "SEARCH s USING INDEX entries_tool (tool=?)",
    "SELECT * FROM audit_log WHERE tool_name = 't' ORDER BY timestamp DESC LIMIT 10": (
        "SEARCH s USING INDEX entries_tool (tool=?)"
    ),
    "SELECT * FROM audit_log WHERE id = 7": "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
    "SELECT * FROM tool_calls WHERE call_id = 'c'": "SEARCH e USING INDEX entries_call (call_id=?)",
    "SELECT * FROM tool_calls WHERE run_id = 'r'": "SEARCH e USING INDEX entries_run (run_id=?)",
    "SELECT * FROM tool_calls WHERE tool_name = 't'": "SEARCH e USING INDEX entries_tool (tool=?)",
    "SELECT * FROM tool_results WHERE call_id = 'c'": "SEARCH s USING INDEX entries_call (call_id=?)",
    "SELECT * FROM tool_results WHERE run_id = 'r'": "SEARCH s USING INDEX entries_run (run_id=?)",
    "SELECT * FROM tool_results ORDER BY ended_at DESC LIMIT 10": "SCAN s USING INDEX entries_timestamp",
    "SELECT * FROM runs WHERE run_id = 'r'": "SEARCH r USING INDEX entries_run (run_id=?)",
    "SELECT * FROM runs ORDER BY created_at DESC, run_id DESC LIMIT 10": "SCAN r USING INDEX entries_begun",
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "a.db"
    asyncio.run(SqliteLedger(path, SystemClock(), RandomIds()).close())
    return path


def steps_of(path: Path, question: str) -> list[str]:
    with closing(open_reader(path)) as reader:
        return [row[3] for row in reader.rows(f"EXPLAIN QUERY PLAN {question}")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_view_answers_by_an_index_without_sorting(empty: Path, question: str) -> None:
    steps = steps_of(empty, question)
    assert steps[0] == QUESTIONS[question]
    assert not any("TEMP B-TREE" in step for step in steps)
    assert not any(step.startswith("SCAN") for step in steps[1:])


@pytest.mark.parametrize("view", ["audit_log", "tool_calls", "tool_results", "ha_command_log"])
def test_a_view_never_walks_a_chain_for_one_call(empty: Path, view: str) -> None:
    steps = steps_of(empty, f"SELECT * FROM {view}")
    assert any(step.startswith("SEARCH f USING INDEX entries_call (call_id=?") for step in steps)
    assert not any("entries_chain" in step for step in steps)


def test_a_claimed_request_is_found_by_the_same_index(empty: Path) -> None:
    from agent_gate.ledger.sqlite.backing import CLAIM  # noqa: PLC0415 -- beside what it is for

    with closing(sqlite3.connect(empty)) as connection:
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {CLAIM}", ("r", "a"))]
    assert steps[0] == "SEARCH entries USING INDEX entries_request (<expr>=? AND agent_id=?)"
