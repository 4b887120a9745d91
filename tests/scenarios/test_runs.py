"""Runs afterwards: reports, replay, and trying another policy on what was recorded."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import load_policy, open_gate, run_plan, tool
from agent_gate.gate.plans import RunResult
from agent_gate.history.policy_try import Trial, try_policy
from agent_gate.history.replays import Replayed, replay_run
from agent_gate.history.report import build_report
from agent_gate.history.report_page import render
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import ReplayError
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.policy.judge import Judge
from agent_gate.services.state import StateService
from agent_gate.system.clock import RandomIds, SystemClock

ACTED: list[str] = []

POLICY: dict[str, Any] = {
    "rules": [
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "lamp.switch(*)", "action": "allow", "when": "get(state, 'dark', False) == True or cost < 2"},
        {"pattern": "lamp.switch(cellar)", "action": "deny"},
    ],
    "boundary": "deny_by_default",
}


@tool("lamp.switch", effect="write", risk="low", cost=3)
async def switch(room: str) -> dict[str, str]:
    """Counts what it did."""
    ACTED.append(room)
    return {"room": room, "is": "on"}


PLAN = Plan(
    (
        PlanStep("state.set", {"path": "/dark", "value": True}),
        PlanStep("lamp.switch", {"room": "hall"}, id="lamp"),
        PlanStep("state.set", {"path": "/last", "value": "${steps.lamp.data.room}"}),
        PlanStep("lamp.switch", {"room": "cellar"}),
    ),
    name="evening",
)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "agent-gate.db"


async def run(db: Path, plan: Plan = PLAN, policy: Mapping[str, Any] = POLICY) -> RunResult:
    async with open_gate(policy, db, tools=[switch]) as gate:
        return await run_plan(gate, plan)


async def replay(db: Path, run_id: str, policy: Mapping[str, Any] | None = None) -> Replayed:
    clock, ids = SystemClock(), RandomIds()
    pure = {registered.declaration.name: registered.transition for registered in StateService().registered_tools()}
    other = load_policy(policy) if policy else None
    ledger = SqliteLedger(db, clock, ids)
    try:
        return await replay_run(ledger, run_id, clock=clock, ids=ids, find=pure.get, other=other)
    finally:
        await ledger.close()


def reading(db: Path) -> Any:
    return closing(open_reader(db))


def tried(db: Path, policy: Mapping[str, Any]) -> Trial:
    with reading(db) as reader:
        return try_policy(reader, Judge(load_policy(policy)))


async def test_a_replayed_run_returns_what_was_recorded_and_does_nothing(db: Path) -> None:
    result = await run(db)
    acted = len(ACTED)
    replayed = await replay(db, result.run_id)
    assert (replayed.mismatches, replayed.changes, len(ACTED)) == ([], [], acted)
    assert [step["result"]["status"] for step in replayed.steps] == ["success", "success", "success", "denied"]
    assert [step["result"].get("data") for step in replayed.steps] == [o.data for o in result.outcomes]


async def test_a_replay_is_a_run_of_its_own_linked_to_the_original(db: Path) -> None:
    result = await run(db)
    replayed = await replay(db, result.run_id)
    with reading(db) as reader:
        row = reader.connection.execute(
            "SELECT mode, status, total_steps FROM runs WHERE run_id = ?", (replayed.run_id,)
        ).fetchone()
        linked = reader.connection.execute(
            "SELECT body ->> '$.original_run_id' FROM entries WHERE run_id = ? AND status = 'running'",
            (replayed.run_id,),
        ).fetchone()
    assert (row, linked, verify(db).ok) == (("replay", "completed", 4), (result.run_id,), True)


async def test_a_beginning_of_the_id_is_enough_and_an_unknown_run_is_4001(db: Path) -> None:
    result = await run(db)
    with reading(db) as reader:
        assert build_report(reader, result.run_id[:20], 0.0)["run"]["run_id"] == result.run_id
        with pytest.raises(Exception, match="there is no run `nope`") as refused:
            build_report(reader, "nope", 0.0)
    assert getattr(refused.value, "code", None) == 4001


async def test_a_changed_result_is_a_hash_mismatch(db: Path) -> None:
    result = await run(db)
    change(db, 'UPDATE entries SET body = replace(body, \'"is":"on"\', \'"is":"off"\')')
    replayed = await replay(db, result.run_id)
    assert [(m.code, m.step_index) for m in replayed.mismatches] == [(5004, 1), (4004, 1)]


async def test_a_changed_plan_is_a_plan_mismatch(db: Path) -> None:
    result = await run(db)
    change(
        db,
        "UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), 'hall', 'attic') AS BLOB)"
        " WHERE CAST(data AS TEXT) LIKE '%evening%'",
    )
    replayed = await replay(db, result.run_id)
    assert [m.code for m in replayed.mismatches] == [4002, 4003]


async def test_a_changed_verdict_is_found(db: Path) -> None:
    result = await run(db)
    change(db, 'UPDATE entries SET body = replace(body, \'"decision":"deny"\', \'"decision":"allow"\')')
    replayed = await replay(db, result.run_id)
    assert [(m.code, m.step_index) for m in replayed.mismatches] == [(5004, 3), (4004, 3)]
    assert "the verdict was allow" in replayed.mismatches[1].what


async def test_a_changed_state_is_found(db: Path) -> None:
    result = await run(db)
    change(
        db, 'UPDATE entries SET body = replace(body, \'"value":"hall"\', \'"value":"loft"\') WHERE kind = \'settled\''
    )
    replayed = await replay(db, result.run_id)
    assert {m.step_index for m in replayed.mismatches} == {2}


def change(db: Path, sql: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        assert connection.execute(sql).rowcount > 0


async def test_another_policy_lists_every_verdict_that_would_change(db: Path) -> None:
    result = await run(db)
    stricter = {"rules": [{"pattern": "state.*", "action": "allow"}], "boundary": "deny_by_default"}
    replayed = await replay(db, result.run_id, stricter)
    assert [(c.step_index, c.what) for c in replayed.changes] == [(1, "lamp.switch(hall): allow would be deny")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (POLICY, (4, 0, 0, 0, 0)),
        ({"rules": [{"pattern": "*", "action": "allow"}]}, (4, 1, 0, 0, 0)),
        ({"rules": [{"pattern": "*", "action": "deny"}]}, (4, 0, 3, 0, 0)),
        (
            {"rules": [{"pattern": "state.*", "action": "allow"}, {"pattern": "lamp*", "action": "ask"}]},
            (4, 0, 0, 0, 2),
        ),
        ({**POLICY, "approvals": [{"min_cost": 3}]}, (4, 0, 0, 0, 1)),
    ],
)
async def test_trying_a_policy_counts_what_it_would_change(
    db: Path, policy: dict[str, Any], expected: tuple[int, ...]
) -> None:
    await run(db)
    trial = tried(db, policy)
    counts = (trial.judged, trial.newly_allowed, trial.newly_denied, trial.approvals_saved, trial.approvals_added)
    assert counts == expected


async def test_what_a_tool_said_of_itself_is_known_to_a_later_process(db: Path) -> None:
    """The cost of an own tool decides here, and the judge that tries the policy has never seen the tool."""
    await run(db)
    assert tried(db, {**POLICY, "approvals": [{"min_cost": 4}]}).approvals_added == 0


async def test_the_report_tells_steps_denials_with_their_remedy_and_what_was_touched(db: Path) -> None:
    result = await run(db)
    with reading(db) as reader:
        report = build_report(reader, result.run_id, time.time())
    assert sorted(report) == ["generated_at", "plan", "policy", "report_version", "run", "steps", "summary"]
    assert report["summary"]["statuses"] == {"success": 3, "denied": 1}
    assert [(d["step_index"], d["code"]) for d in report["summary"]["denials"]] == [(3, 1001)]
    assert report["summary"]["denials"][0]["remedy"] == "narrow or remove it"
    assert "lamp.switch(hall)" in report["summary"]["resources"]["other_calls"]
    assert report["plan"]["name"] == "evening"


async def test_the_page_loads_nothing_and_shows_agent_text_as_text(db: Path) -> None:
    hostile = "</pre><script>alert(1)</script>\u202egnp"
    plan = Plan((PlanStep("state.set", {"path": "/x", "value": hostile}),), name="<img src=x>")
    result = await run(db, plan)
    with reading(db) as reader:
        page = render(build_report(reader, result.run_id, time.time()))
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "U+202E" in page
    assert "src=" not in page.replace("&lt;img src=x&gt;", "")


async def test_a_plan_of_a_thousand_mixed_steps_runs_reports_and_replays(db: Path) -> None:
    def steps() -> Iterator[PlanStep]:
        for number in range(500):
            yield PlanStep("state.set", {"path": f"/n{number % 10}", "value": number})
            yield PlanStep("lamp.switch", {"room": f"room {number}"})

    result = await run(db, Plan((PlanStep("state.set", {"path": "/dark", "value": True}), *steps())))
    with reading(db) as reader:
        report = build_report(reader, result.run_id, time.time())
    replayed = await replay(db, result.run_id)
    assert (result.status, report["summary"]["statuses"], replayed.mismatches) == ("completed", {"success": 1001}, [])


LISTS = Plan((PlanStep("state.set", {"path": "/list", "value": [1, 2]}),), name="lists")


@pytest.mark.parametrize("planned", ["[1,2,3]", "[1]", "[]"])
async def test_a_list_in_the_plan_that_is_longer_or_shorter_than_the_recorded_one_is_other_arguments(
    db: Path, planned: str
) -> None:
    result = await run(db, LISTS)
    change(
        db,
        f"UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), '[1,2]', '{planned}') AS BLOB)"
        " WHERE CAST(data AS TEXT) LIKE '%lists%'",
    )
    replayed = await replay(db, result.run_id)
    told = [(m.code, m.step_index, m.what) for m in replayed.mismatches]
    assert (4003, 0, "the plan has other arguments") in told
    assert 4002 in [code for code, _, _ in told]


async def test_a_step_that_the_plan_does_not_have_is_a_step_mismatch(db: Path) -> None:
    """The record is longer than the plan: from its end on, each step is named."""
    result = await run(db)
    shorter = (
        "UPDATE blobs SET data = CAST(json_set(CAST(data AS TEXT), '$.steps',"
        " json(json_remove(CAST(data AS TEXT) -> '$.steps', '$[3]', '$[2]'))) AS BLOB)"
        " WHERE CAST(data AS TEXT) LIKE '%evening%'"
    )
    change(db, shorter)
    replayed = await replay(db, result.run_id)
    told = [(m.code, m.step_index, m.what) for m in replayed.mismatches]
    assert [one for one in told if one[0] == 4003] == [
        (4003, 2, "the plan has no such step"),
        (4003, 3, "the plan has no such step"),
    ]


ASKING = {"rules": [{"pattern": "state.*", "action": "allow"}, {"pattern": "lamp.*", "action": "ask"}]}


async def test_a_verdict_is_computed_as_it_was_when_nobody_could_be_asked_and_otherwise_under_another_policy(
    db: Path,
) -> None:
    """An ask that nobody could answer was a deny, and still is; another policy's verdict is what its rules say."""
    plan = Plan((PlanStep("lamp.switch", {"room": "hall"}),), name="ask")
    result = await run(db, plan, ASKING)
    assert [outcome.status.value for outcome in result.outcomes] == ["denied"]
    replayed = await replay(db, result.run_id)
    assert (replayed.mismatches, replayed.changes) == ([], [])
    other = await replay(db, result.run_id, {**ASKING, "timezone": "Europe/Berlin"})
    assert [change.what for change in other.changes] == ["lamp.switch(hall): deny would be ask"]


async def test_a_recorded_policy_that_cannot_be_read_is_an_error_with_its_code_and_no_silent_yes(db: Path) -> None:
    result = await run(db)
    change(
        db,
        "UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), '\"rules\"', '\"roles_of\"') AS BLOB)"
        " WHERE CAST(data AS TEXT) LIKE '%deny_by_default%'",
    )
    with pytest.raises(ReplayError, match="the recorded policy cannot be read") as refused:
        await replay(db, result.run_id)
    assert refused.value.code == 4002
    assert not verify(db).ok


async def test_a_policy_that_is_not_recorded_any_more_is_named_for_each_of_its_calls(db: Path) -> None:
    result = await run(db)
    change(db, "DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE '%deny_by_default%'")
    replayed = await replay(db, result.run_id)
    named = [m for m in replayed.mismatches if "is not recorded" in m.what]
    assert [(m.code, m.step_index) for m in named] == [(4002, 0), (4002, 1), (4002, 2), (4002, 3)]
