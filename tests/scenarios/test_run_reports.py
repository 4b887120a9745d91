"""What is told of a run: everything that it attempted, why it was refused, and how far it has come."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, run_plan, tool
from agent_gate.history import query
from agent_gate.history.report import build_report
from agent_gate.history.report_page import render
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import ToolError
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from tests.gates import (
    ALLOW_ALL,
    PATIENCE_S,
    HandClock,
    a_gate,
    agent,
    approve,
    outcome_of,
    pending,
    rows,
    run_elsewhere,
    sender,
)
from tests.scenarios.test_cli import run, run_json

DB = "gate.db"


def report_of(directory: Path, run_id: str) -> dict[str, Any]:
    with closing(open_reader(directory / DB)) as reader:
        return build_report(reader, run_id, 0.0)


@tool("mail.lose", effect="write", risk="low")
async def lose(to: str) -> Json:
    """Fails after it has begun."""
    raise ToolError(f"no answer from {to}")


@tool("note.miss", effect="read", risk="low")
async def miss(name: str) -> Json:
    """Fails, and needs no intent."""
    raise ToolError(f"no note {name}")


async def test_everything_that_had_an_intent_is_reported_with_how_it_ended(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "mail.send(no)", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    steps = (
        PlanStep("mail.send", {"text": "yes"}, id="sent"),
        PlanStep("mail.lose", {"to": "anna"}),
        PlanStep("note.miss", {"name": "x"}),
        PlanStep("mail.send", {"text": "no"}),
        PlanStep("mail.send", {"text": "${steps.sent.data}"}),
    )
    async with a_gate(tmp_path, policy, sender([]), lose, miss) as gate:
        result = await run_plan(gate, Plan(steps), fail_fast=False)
    assert [outcome.error and outcome.error.code for outcome in result.outcomes] == [None, 2003, 2003, 1001, 2002]
    summary = report_of(tmp_path, result.run_id)["summary"]
    assert summary["resources"]["other_calls"] == ["mail.lose(anna)", "mail.send(yes)", "note.miss(x)"]
    assert [(one["name"], one["status"], one.get("code"), one["step_index"]) for one in summary["attempts"]] == [
        ("mail.send(yes)", "success", None, 0),
        ("mail.lose(anna)", "error", 2003, 1),
        ("note.miss(x)", "error", 2003, 2),
    ]


def test_a_domain_that_did_not_answer_and_a_command_that_said_too_much_are_reported(tmp_path: Path) -> None:
    """With a port of this machine at which nobody listens, and a command that says more than the policy lets pass."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        _attempts_are_reported(tmp_path, taken.getsockname()[1])


def _attempts_are_reported(tmp_path: Path, port: int) -> None:
    (tmp_path / "big.txt").write_text("x" * 5_000)
    (tmp_path / "policy.yaml").write_text(
        f"""
version: 1
tools:
  fs.read: {{allow_paths: ["./**"]}}
  http.get: {{allow_domains: ["127.0.0.1"], allow_schemes: [http], allow_ports: [{port}], deny_private_ips: false}}
  shell.run: {{allow_executables: [cat], max_output_bytes: 100, sandbox: off}}
"""
    )
    (tmp_path / "plan.yaml").write_text(
        f"""
version: "1.0"
steps:
  - {{tool: http.get, args: {{url: "http://127.0.0.1:{port}/x"}}}}
  - {{tool: shell.run, args: {{argv: [cat, big.txt]}}}}
"""
    )
    report = json.loads(run(tmp_path, "run", "plan.yaml", "--no-fail-fast", "--json").stdout)
    assert [step["result"]["status"] for step in report["steps"]] == ["error", "error"]
    resources = report["summary"]["resources"]
    assert (resources["domains_contacted"], resources["commands_run"]) == ([f"127.0.0.1:{port}"], ["cat big.txt"])
    shown = run(tmp_path, "report", report["run"]["run_id"]).stdout.decode()
    [domain] = [line for line in shown.splitlines() if line.strip().startswith("domains contacted")]
    [command] = [line for line in shown.splitlines() if line.strip().startswith("commands run")]
    assert domain.endswith(f"127.0.0.1:{port}  error {report['steps'][0]['result']['error']['code']}")
    assert command.endswith("cat big.txt  error 2005")
    page = run(tmp_path, "report", report["run"]["run_id"], "--format", "html").stdout.decode()
    assert "cat big.txt <b>error 2005</b>" in page


async def test_a_run_refused_before_its_first_step_says_why_and_what_helps_everywhere(tmp_path: Path) -> None:
    policy = {**ALLOW_ALL, "limits": {"steps": {"interactive": 1}}}
    step = PlanStep("state.set", {"path": "x", "value": 1})
    async with a_gate(tmp_path, policy) as gate:
        result = await run_plan(gate, Plan((step, step)), mode="interactive")
    why, remedy = "the plan has 2 steps and mode interactive allows 1", "split the plan or raise limits.steps"
    report = report_of(tmp_path, result.run_id)
    assert (report["run"]["error"]["code"], report["run"]["error"]["detail"]) == (1018, why)
    for text in (
        render(report),
        run(tmp_path, "report", result.run_id, "--db", DB).stdout.decode(),
        run(tmp_path, "show-run", result.run_id, "--db", DB).stdout.decode(),
        run(tmp_path, "list-runs", "--db", DB).stdout.decode(),
    ):
        assert why in text
        assert remedy in text
        assert "1018" in text
    [listed] = run_json(tmp_path, "list-runs", "--db", DB)["runs"]
    assert listed["error"]["suggestion"] == remedy


def test_a_run_in_a_project_that_is_not_there_has_a_report_with_reason_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('version: 1\nrules: [{pattern: "*", action: allow}]\n')
    (tmp_path / "plan.yaml").write_text('version: "1.0"\nsteps: [{tool: state.get, args: {path: ""}}]\n')
    done = run(tmp_path, "run", "plan.yaml", "--project", "nosuch")
    assert done.returncode == 1
    [listed] = run_json(tmp_path, "list-runs")["runs"]
    run_id = listed["run_id"]
    assert f"agent-gate report {run_id}" in done.stdout.decode()
    assert listed["status"] == "failed"
    for words in (["report", run_id], ["report", run_id, "--format", "html"], ["show-run", run_id], ["list-runs"]):
        shown = run(tmp_path, *words)
        assert shown.returncode == 0
        assert b"project `nosuch` does not exist" in shown.stdout
        assert b"agent-gate project create nosuch" in shown.stdout
    assert run(tmp_path, "replay", run_id).returncode == 0
    assert run(tmp_path, "verify").returncode == 0


async def test_a_run_of_an_agent_in_a_project_that_is_not_its_own_is_on_record(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        result = await run_plan(gate, Plan((PlanStep("state.get", {"path": ""}),)), project="other", agent=agent())
    report = report_of(tmp_path, result.run_id)
    assert (report["run"]["status"], report["run"]["error"]["code"], len(report["steps"])) == ("failed", 6003, 1)


async def test_the_counters_of_a_run_count_while_it_is_under_way(tmp_path: Path) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool("wait.here", effect="write", risk="low")
    async def wait() -> Json:
        reached.set()
        await go_on.wait()
        return {}

    policy = {"rules": [{"pattern": "mail.send(no)", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    steps = (
        PlanStep("state.set", {"path": "x", "value": 1}),
        PlanStep("mail.send", {"text": "no"}),
        PlanStep("mail.lose", {"to": "anna"}),
        PlanStep("wait.here", {}),
    )
    async with a_gate(tmp_path, policy, sender([]), lose, wait) as gate:
        running = asyncio.create_task(run_plan(gate, Plan(steps), fail_fast=False, run_id="r1"))
        await asyncio.wait_for(reached.wait(), PATIENCE_S)
        assert _counters(tmp_path) == ("running", 1, 1, 1)
        report = report_of(tmp_path, "r1")["run"]
        assert (report["completed_steps"], report["denied_steps"], report["failed_steps"]) == (1, 1, 1)
        go_on.set()
        await asyncio.wait_for(running, PATIENCE_S)
    assert _counters(tmp_path) == ("failed", 2, 1, 1)


def _counters(directory: Path) -> tuple[Any, ...]:
    with closing(open_reader(directory / DB)) as reader:
        [listed] = query.runs(reader)
    return listed["status"], listed["completed_steps"], listed["denied_steps"], listed["failed_steps"]


async def test_a_run_whose_process_was_killed_counts_the_step_in_doubt_as_failed(tmp_path: Path) -> None:
    run_elsewhere(
        tmp_path,
        """
        import signal
        from agent_gate.model.plan import Plan, PlanStep
        async def main():
            @tool("die.now", effect="write", risk="low")
            async def die() -> None:
                os.kill(os.getpid(), signal.SIGKILL)
            async with a_gate(directory, ALLOW_ALL, die) as gate:
                steps = (PlanStep("state.set", {"path": "a", "value": 1}), PlanStep("die.now", {}))
                await run_plan(gate, Plan(steps), run_id="r1")
        """,
    )
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        [row] = rows(gate, "SELECT * FROM runs")
    assert (row["status"], row["completed_steps"], row["failed_steps"]) == ("failed", 1, 1)
    assert report_of(tmp_path, "r1")["run"]["error"]["code"] == 2007


async def _at_once(gate: Gate) -> None:
    assert (await gate.call("mail.send", text="now")).ok


async def _after_a_question(gate: Gate) -> None:
    question = await pending(gate, "mail.send", {"text": "later"})
    await approve(gate, question)
    assert (await outcome_of(gate, question)).ok


async def _read(gate: Gate) -> None:
    await gate.call("note.miss", name="x")


@pytest.mark.parametrize("make", [_at_once, _after_a_question, _read])
async def test_a_call_is_never_created_after_it_started(tmp_path: Path, make: Any) -> None:
    ticking = _Ticking()
    allowed = [{"pattern": pattern, "action": "allow"} for pattern in ("mail.send(now)", "note.*")]
    policy = {"rules": [{"pattern": "mail.send(later)", "action": "ask"}, *allowed]}
    async with a_gate(tmp_path, policy, sender([]), miss, clock=ticking) as gate:
        await make(gate)
        sql = "SELECT c.created_at, r.started_at, r.ended_at FROM tool_calls c JOIN tool_results r USING (call_id)"
        [row] = rows(gate, sql)
    assert row["created_at"] == row["started_at"] < row["ended_at"]


class _Ticking(HandClock):
    """Something passes with every look."""

    def now(self) -> float:
        self.advance(0.001)
        return super().now()
