"""The Capsule document's storage: a run, its calls and its results as any SQLite client reads them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, load_plan, load_policy, replay_run, run_plan, tool
from agent_gate.gate.plans import RunResult
from agent_gate.model.codec import canonical
from tests.gates import Row, a_gate, rows, sender

POLICY: dict[str, Any] = {
    "boundary": "deny_by_default",
    "rules": [{"pattern": "mail.send(hi)", "action": "allow"}, {"pattern": "broken", "action": "allow"}],
}
PLAN: dict[str, Any] = {
    "version": "1.0",
    "name": "three ends",
    "steps": [
        {"tool": "mail.send", "args": {"text": "hi"}},
        {"tool": "mail.send", "args": {"text": "bye"}},
        {"tool": "broken"},
    ],
}


@tool("broken")
async def broken() -> None:
    raise RuntimeError("no power")


class Stored:
    """What the three views hold after a run with a success, a denial and an error, and after its replay."""

    def __init__(self, gate: Gate, result: RunResult, replay_id: str) -> None:
        self.result, self.replay_id = result, replay_id
        self.runs = {row["run_id"]: row for row in rows(gate, "SELECT * FROM runs")}
        self.calls: list[Row] = rows(gate, "SELECT * FROM tool_calls ORDER BY step_index")
        by_call = {row["call_id"]: row for row in rows(gate, "SELECT * FROM tool_results")}
        self.results: list[Row] = [by_call[call["call_id"]] for call in self.calls]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return self.result.outcomes


@pytest.fixture
async def stored(tmp_path: Path) -> Stored:
    async with a_gate(tmp_path, POLICY, sender([]), broken) as gate:
        result = await run_plan(gate, load_plan(PLAN), fail_fast=False)
        replayed = await replay_run(gate, result.run_id)
        return Stored(gate, result, replayed.run_id)


async def test_runs_execution_metadata(stored: Stored) -> None:
    run = stored.runs[stored.result.run_id]
    assert (run["mode"], run["status"]) == ("run", "failed")
    counted = ("total_steps", "completed_steps", "denied_steps", "failed_steps")
    assert [run[name] for name in counted] == [3, 1, 1, 1]
    assert run["created_at"] <= run["completed_at"]


async def test_runs_hold_the_full_plan_and_policy_for_replay_and_their_hashes(stored: Stored) -> None:
    run = stored.runs[stored.result.run_id]
    assert load_plan(json.loads(run["plan_json"])) == load_plan(PLAN)
    assert load_policy(json.loads(run["policy_json"])) == load_policy(POLICY)
    for name in ("plan", "policy"):
        assert sha256(run[f"{name}_json"].encode()).hexdigest() == run[f"{name}_hash"]


async def test_runs_of_a_replay_have_the_mode_replay_and_the_same_plan(stored: Stored) -> None:
    original, replayed = stored.runs[stored.result.run_id], stored.runs[stored.replay_id]
    assert (replayed["mode"], replayed["status"]) == ("replay", "completed")
    same = ("plan_hash", "policy_hash", "total_steps", "completed_steps", "denied_steps", "failed_steps")
    assert [replayed[name] for name in same] == [original[name] for name in same]


async def test_tool_calls_invocation_records(stored: Stored) -> None:
    told = [(row["step_index"], row["tool_name"], json.loads(row["args_json"])) for row in stored.calls]
    assert told == [(0, "mail.send", {"text": "hi"}), (1, "mail.send", {"text": "bye"}), (2, "broken", {})]
    assert [row["call_id"] for row in stored.calls] == [outcome.call_id for outcome in stored.outcomes]
    assert {row["run_id"] for row in stored.calls} == {stored.result.run_id}


async def test_tool_results_execution_outcomes(stored: Stored) -> None:
    success, denied, error = stored.results
    assert [row["status"] for row in stored.results] == ["success", "denied", "error"]
    assert (json.loads(success["output_json"]), denied["output_json"]) == ({"sent": "hi"}, None)
    assert json.loads(error["output_json"]) == {"error": stored.outcomes[2].to_json()["error"]}
    assert [success["error"], error["error"]] == [None, "`broken` failed: RuntimeError: no power"]
    assert "mail.send(bye)" in denied["error"]
    assert [json.loads(row["policy_decision_json"])["decision"] for row in stored.results] == ["allow", "deny", "allow"]
    assert all(row["started_at"] <= row["ended_at"] for row in stored.results)


async def test_tool_results_have_the_sha256_of_input_and_output(stored: Stored) -> None:
    for call, result in zip(stored.calls, stored.results, strict=True):
        assert result["input_hash"] == sha256(canonical(json.loads(call["args_json"]))).hexdigest()
        output = result["output_json"] if result["status"] == "success" else None
        assert result["output_hash"] == (output and sha256(canonical(json.loads(output))).hexdigest())
