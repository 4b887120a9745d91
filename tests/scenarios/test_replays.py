"""Replays: what was taken from the record shows, what is not here is no alarm, and a replay is a record itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, replay_run, run_plan, tool, transition
from agent_gate.history.report import build_report
from agent_gate.history.report_page import render
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import ReplayError
from agent_gate.model.plan import Plan, PlanStep
from tests.gates import a_gate, code_of, counter, entries, run_elsewhere, sender
from tests.scenarios.test_cli import run, run_json
from tests.unit.history.made import erase

POLICY: dict[str, Any] = {
    "rules": [{"pattern": "*", "action": "allow"}, {"pattern": "mail.send(no)", "action": "deny"}],
}
PLAN = Plan(
    (
        PlanStep("state.set", {"path": "a", "value": 1}),
        PlanStep("counter.add", {"n": 2}),
        PlanStep("mail.send", {"text": "hello"}),
        PlanStep("mail.send", {"text": "no"}),
        PlanStep("state.get", {"path": "a"}),
        PlanStep("state.set", {"path": "b", "value": 2}),
    ),
    name="mixed",
)
DB = "gate.db"


async def made(directory: Path, plan: Plan = PLAN) -> str:
    """A run, and calls of others around it and within the same chain."""
    async with a_gate(directory, POLICY, counter(), sender([])) as gate:
        await gate.call("state.set", path="before", value=1)
        result = await run_plan(gate, plan, fail_fast=False)
        await gate.call("state.set", path="after", value=1)
        return result.run_id


async def replayed(directory: Path, run_id: str, *tools: Any) -> Any:
    async with a_gate(directory, POLICY, *tools) as gate:
        return await replay_run(gate, run_id)


def change(directory: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(directory / DB)) as connection, connection:
        assert connection.execute(sql, values).rowcount > 0


@pytest.mark.parametrize(
    "which",
    [
        "kind = 'settled' AND tool LIKE 'state.%'",
        "kind = 'settled' AND tool = 'mail.send' AND status = 'success'",
        "kind = 'settled' AND status = 'denied'",
        "kind = 'performing'",
        "kind = 'settled'",
        "kind = 'run' AND status <> 'running'",
        "kind <> 'run'",
    ],
)
@pytest.mark.parametrize("words", [[], ["--verify"]])
async def test_a_run_from_which_entries_were_deleted_is_broken(tmp_path: Path, which: str, words: list[str]) -> None:
    run_id = await made(tmp_path)
    change(tmp_path, f"DELETE FROM entries WHERE run_id = ? AND {which}", run_id)
    done = run(tmp_path, "replay", run_id, *words, "--db", DB)
    assert (done.returncode, b"broken" in done.stdout, b"as recorded" in done.stdout) == (6, True, False)


async def test_a_run_that_lost_steps_from_its_end_counts_them(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    change(tmp_path, "DELETE FROM entries WHERE run_id = ? AND tool = 'state.get'", run_id)
    texts = [mismatch.what for mismatch in (await replayed(tmp_path, run_id, counter(), sender([]))).mismatches]
    assert any("the end of the run counts 6 steps, and 5 are recorded" in text for text in texts)
    assert any("before it is missing" in text for text in texts)


async def test_an_entry_of_another_call_within_the_run_s_part_of_the_chain_counts_too(tmp_path: Path) -> None:
    """A chain with a gap proves nothing of what stands behind it."""
    async with a_gate(tmp_path, POLICY, counter()) as gate:

        async def meanwhile() -> dict[str, int]:
            await gate.call("state.set", path="x", value=1)
            return {"done": 1}

        nested = tool("meet.once", effect="write", risk="low")(meanwhile)
        async with a_gate(tmp_path, POLICY, nested) as other:
            result = await run_plan(other, Plan((PlanStep("meet.once", {}), PlanStep("meet.once", {}))))
    assert (await replayed(tmp_path, result.run_id, nested)).mismatches == []
    change(tmp_path, "DELETE FROM entries WHERE tool = 'state.set' AND seq = (SELECT max(seq) FROM entries"
                     " WHERE tool = 'state.set')")  # fmt: skip
    assert {m.code for m in (await replayed(tmp_path, result.run_id, nested)).mismatches} == {5004}


async def test_a_run_whose_beginning_is_gone_is_no_unknown_run(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    change(tmp_path, "DELETE FROM entries WHERE run_id = ? AND status = 'running'", run_id)
    done = run(tmp_path, "replay", run_id, "--db", DB)
    assert (done.returncode, b"the beginning of run" in done.stderr) == (6, True)


async def test_a_whole_run_is_as_recorded_and_with_verify_too(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    for words in ([], ["--verify"]):
        done = run(tmp_path, "replay", run_id, *words, "--db", DB)
        assert (done.returncode, b"6 steps" in done.stdout, b"as recorded" in done.stdout) == (0, True, True)
        assert (b"its entries and the anchor are intact" in done.stdout) == bool(words)


async def test_a_run_that_a_crash_cut_off_is_as_recorded(tmp_path: Path) -> None:
    """The call in doubt was settled by another process, in the very group that ended the run."""
    run_elsewhere(
        tmp_path,
        """
        from agent_gate.model.plan import Plan, PlanStep
        async def main():
            @tool("die.now", effect="write", risk="low")
            async def die() -> None:
                os._exit(9)
            async with a_gate(directory, {"rules": [{"pattern": "*", "action": "allow"}]}, die) as gate:
                steps = (PlanStep("state.set", {"path": "a", "value": 1}), PlanStep("die.now", {}))
                await run_plan(gate, Plan(steps), run_id="run-that-died")
        """,
    )
    done = await replayed(tmp_path, "run-that-died", counter())
    assert (done.mismatches, [step["result"]["status"] for step in done.steps]) == ([], ["success", "unknown"])


async def test_what_is_not_here_cannot_be_recomputed_and_is_no_mismatch(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    done = run(tmp_path, "replay", run_id, "--db", DB)
    assert done.returncode == 0
    assert b"1 step cannot be recomputed here" in done.stdout
    assert b"there is no pure tool `counter.add` here" in done.stdout
    told = run_json(tmp_path, "replay", run_id, "--db", DB)
    assert told["mismatches"] == []
    [one] = told["not_recomputed"]
    assert (one["step_index"], one["why"]) == (1, "there is no pure tool `counter.add` here")
    here = await replayed(tmp_path, run_id, counter())
    assert (here.mismatches, here.not_recomputed) == ([], [])


async def test_a_tool_that_is_here_and_leads_elsewhere_is_a_mismatch(tmp_path: Path) -> None:
    run_id = await made(tmp_path)

    def other(inputs: dict[str, Any], state: Any) -> tuple[Any, str]:
        return {**state, "n": 99}, "other"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    done = await replayed(tmp_path, run_id, transition("counter.add", schema=schema)(other))
    assert [(m.code, m.step_index, m.what) for m in done.mismatches] == [(4004, 1, "it leads to another state")]


async def test_erased_and_secret_steps_are_counted_as_not_recomputed(tmp_path: Path) -> None:
    @tool("lock.open", effect="write", risk="low", secret=("pin",))
    async def unlock(pin: str) -> dict[str, bool]:
        return {"open": True}

    plan = Plan((PlanStep("lock.open", {"pin": "12345"}), PlanStep("state.set", {"path": "x", "value": 1})))
    policy = {"rules": [{"pattern": "*", "action": "allow", "when": "get(inputs, 'pin', '12345') == '12345'"}]}
    async with a_gate(tmp_path, policy, unlock) as gate:
        result = await run_plan(gate, plan)
        assert result.status == "completed", result
        await erase(gate, result.outcomes[1].call_id)
        done = await replay_run(gate, result.run_id)
    assert done.mismatches == []
    assert {(one.step_index, one.why) for one in done.not_recomputed} == {
        (0, "its secret arguments are not recorded"),
        (None, "what it was has been erased"),
    }


async def test_a_replay_records_what_it_found_step_by_step(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    change(
        tmp_path,
        'UPDATE entries SET body = replace(body, \'"sent":"hello"\', \'"sent":"other"\') WHERE run_id = ?',
        run_id,
    )
    async with a_gate(tmp_path, POLICY) as gate:
        done = await replay_run(gate, run_id, {"rules": [{"pattern": "*", "action": "deny"}]})
        found = [row for row in entries(gate, "replayed") if row["run_id"] == done.run_id]
    assert [(row["body"]["step_index"], row["status"], row["body"]["recorded_status"]) for row in found] == [
        (0, "as_recorded", "success"),
        (1, "not_recomputed", "success"),
        (2, "broken", "success"),
        (3, "as_recorded", "denied"),
        (4, "as_recorded", "success"),
        (5, "as_recorded", "success"),
    ]
    assert [row["call_id"] for row in found] == [step["call_id"] for step in done.steps]
    assert {one["code"] for one in found[2]["body"]["mismatches"]} == {5004, 4004}
    assert found[0]["body"]["changes"] == ["state.set(/a, 1): allow would be deny"]
    assert "changes" not in found[3]["body"]


async def test_the_report_of_a_replay_shows_each_step_and_that_nothing_was_touched(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    done = await replayed(tmp_path, run_id, sender([]))
    assert verify(tmp_path / DB).ok
    with closing(open_reader(tmp_path / DB)) as reader:
        report = build_report(reader, done.run_id, 0.0)
    assert [step["replayed"]["finding"] for step in report["steps"]] == [
        "as_recorded", "not_recomputed", "as_recorded", "as_recorded", "as_recorded", "as_recorded",
    ]  # fmt: skip
    assert not any(report["summary"]["resources"].values())
    assert "not recomputed" in render(report)
    shown = run(tmp_path, "report", done.run_id, "--db", DB).stdout.decode()
    assert "none made" not in shown
    assert shown.count("as recorded") == 5
    assert "there is no pure tool `counter.add` here" in shown
    assert run(tmp_path, "show-run", done.run_id, "--db", DB).stdout.decode().count("as recorded") == 5


async def test_a_replay_of_a_replay_is_refused_with_the_id_of_the_original(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    done = await replayed(tmp_path, run_id)
    with pytest.raises(ReplayError, match=f"is itself a replay, of run `{run_id}`"):
        await replayed(tmp_path, done.run_id)
    told = run(tmp_path, "replay", done.run_id, "--db", DB)
    assert (told.returncode, run_id.encode() in told.stderr) == (3, True)


async def test_the_entries_of_a_replay_change_nothing_of_the_calls_they_are_about(tmp_path: Path) -> None:
    run_id = await made(tmp_path)
    async with a_gate(tmp_path, POLICY, counter(), sender([])) as gate:
        before = await _outcomes(gate, run_id)
        await replay_run(gate, run_id)
        assert await _outcomes(gate, run_id) == before
        assert (await replay_run(gate, run_id)).mismatches == []
        again = await gate.call("mail.send", text="no")
        assert code_of(again) == 1001


async def _outcomes(gate: Gate, run_id: str) -> list[Any]:
    calls = [row["call_id"] for row in entries(gate, "settled") if row["run_id"] == run_id]
    return [await gate.result(call_id) for call_id in calls]


async def test_a_null_that_was_as_if_absent_is_no_difference_from_the_plan(tmp_path: Path) -> None:
    @tool("mail.post", effect="write", risk="low")
    async def post(to: str, subject: str = "none") -> str:
        return f"{to}: {subject}"

    plan = Plan((PlanStep("mail.post", {"to": "anna", "subject": None}), PlanStep("state.get", {"path": None})))
    async with a_gate(tmp_path, POLICY, post) as gate:
        result = await run_plan(gate, plan)
        assert [outcome.ok for outcome in result.outcomes] == [True, True]
        assert (await replay_run(gate, result.run_id)).mismatches == []
    assert (await replayed(tmp_path, result.run_id)).mismatches == []
