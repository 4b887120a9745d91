"""Commands that fail: what counts as a failure, what of it stays, and how people are told."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Agent, Outcome, load_plan, run_plan
from agent_gate.gate.plans import RunResult
from agent_gate.history.report import build_report
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.ending import WRITES_STAY
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of
from tests.scenarios.test_cli import run, run_json

SHELL: dict[str, Any] = {
    "allow_executables": ["sh", "grep", "diff", "cmp", "test", "cat", "ls"],
    "unchecked_executables": ["sh", "test", "cmp", "diff"],
}
POLICY: dict[str, Any] = {
    "tools": {"shell.run": SHELL, "fs.read": {"allow_paths": ["./**"]}, "fs.write": {"allow_paths": ["./**"]}},
    "rules": [{"pattern": pattern, "action": "allow"} for pattern in ("gate.revert(*)", "fs.write(*)")],
}
ADMIN = Agent("local", roles=("admin",), projects=("*",))

_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(_picked is None or not _picked.layers, reason="no sandbox of this machine has layers")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    (work / "b.txt").write_text("two\n")
    (work / "policy.yaml").write_text(json.dumps({"version": 1, **POLICY}))
    return work


def plan_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.0", "steps": [{"tool": "shell.run", "args": step} for step in steps]}


async def ran(work: Path, *steps: dict[str, Any], **options: Any) -> RunResult:
    async with a_gate(work.parent, POLICY, working_dir=work) as gate:
        return await run_plan(gate, load_plan(plan_of(*steps)), **options)


def ended(outcome: Outcome) -> tuple[Status, int | None, int]:
    return outcome.status, code_of(outcome), outcome.data["return_code"]


FAILS: dict[str, Any] = {"argv": ["sh", "-c", "echo made > made; echo told; echo why >&2; exit 3"]}


async def test_a_plan_ends_at_a_command_that_fails_and_what_it_wrote_stays(work: Path) -> None:
    result = await ran(work, FAILS, {"argv": ["cat", "made"]})
    [outcome] = result.outcomes
    assert (result.status, ended(outcome)) == ("failed", (Status.ERROR, 2003, 3))
    assert outcome.error is not None
    assert "`sh` ended with return code 3" in outcome.error.detail
    assert outcome.data == {"return_code": 3, "stdout": "told\n", "stderr": "why\n"}
    assert (outcome.message, (work / "made").read_text()) == (WRITES_STAY, "made\n")


async def test_what_a_failed_command_wrote_can_be_taken_back(work: Path) -> None:
    async with a_gate(work.parent, POLICY, working_dir=work, agent=ADMIN) as gate:
        [outcome] = (await run_plan(gate, load_plan(plan_of(FAILS)))).outcomes
        assert (work / "made").exists()
        undone = await gate.call("gate.revert", call_id=outcome.call_id)
    assert (undone.status, (work / "made").exists()) == (Status.SUCCESS, False)


async def test_outside_of_a_plan_a_code_is_the_programs_answer_unless_the_caller_says_otherwise(work: Path) -> None:
    async with a_gate(work.parent, POLICY, working_dir=work) as gate:
        assert ended(await gate.call("shell.run", FAILS)) == (Status.SUCCESS, None, 3)
        told = await gate.call("shell.run", {**FAILS, "fail_on": "nonzero"})
        assert ended(told) == (Status.ERROR, 2003, 3)
        read = await gate.call("shell.run", {"argv": ["cat", "missing"], "fail_on": "nonzero"})
        assert ended(read) == (Status.ERROR, 2003, 1)
        assert "No such file" in read.data["stderr"]
        assert code_of(await gate.call("shell.run", {**FAILS, "fail_on": "sometimes"})) == 2002


async def test_a_plan_goes_on_where_a_step_says_never(work: Path) -> None:
    result = await ran(work, {**FAILS, "fail_on": "never"}, {"argv": ["cat", "made"]})
    assert (result.status, [ended(outcome)[::2] for outcome in result.outcomes]) == (
        "completed",
        [(Status.SUCCESS, 3), (Status.SUCCESS, 0)],
    )


@pytest.mark.parametrize(
    ("says_no", "fails"),
    [
        (["grep", "nothing", "a.txt"], ["grep", "nothing", "missing"]),
        (["diff", "a.txt", "b.txt"], ["diff", "a.txt", "missing"]),
        (["cmp", "a.txt", "b.txt"], ["cmp", "a.txt", "missing"]),
        (["test", "-e", "missing"], ["test", "-nt", "b", "c", "d"]),
    ],
)
async def test_a_program_whose_1_is_an_answer_fails_only_with_2_or_more(
    work: Path, says_no: list[str], fails: list[str]
) -> None:
    result = await ran(work, {"argv": says_no}, {"argv": fails})
    assert [ended(outcome)[::2] for outcome in result.outcomes] == [(Status.SUCCESS, 1), (Status.ERROR, 2)]


async def test_a_plan_that_would_fail_fails_in_its_simulation(work: Path) -> None:
    result = await ran(work, FAILS, {"argv": ["ls"]}, simulate=True)
    [outcome] = result.outcomes
    assert (ended(outcome), (work / "made").exists()) == ((Status.ERROR, 2003, 3), False)


async def test_the_argument_is_no_part_of_the_signature(work: Path) -> None:
    async with a_gate(work.parent, POLICY, working_dir=work) as gate:
        outcome = await gate.call("shell.run", {"argv": ["cat", "a.txt"], "fail_on": "nonzero"})
    assert outcome.signatures == ("shell.run(cat a.txt)",)


def test_run_report_and_show_run_show_the_code_and_the_first_lines_of_both_streams(work: Path) -> None:
    script = "for n in 1 2 3 4 5 6 7 8; do echo out $n; done; echo first >&2; echo '\033[2Jlast' >&2; exit 4"
    steps = plan_of({"argv": ["ls", "a.txt"]}, {"argv": ["sh", "-c", script]})
    (work / "plan.yaml").write_text(json.dumps(steps))
    done = run(work, "run", "plan.yaml")
    assert done.returncode == 3
    run_id = str(run_json(work, "list-runs")["runs"][0]["run_id"])
    for told in (done, run(work, "report", run_id), run(work, "show-run", run_id)):
        lines = [line.strip() for line in told.stdout.decode().splitlines()]
        wanted = (
            *("return code 0", "stdout  a.txt"),
            *("return code 4", "stdout  out 1", "out 5", "… 2 more lines", "out 8"),
            *("stderr  first", "⟨U+001B⟩[2Jlast"),
        )
        assert [line for line in lines if line in wanted] == list(wanted), lines
        assert any("`sh` ended with return code 4" in line for line in lines)
    page = run(work, "report", run_id, "--format", "html").stdout.decode()
    assert ("ended with return code 4" in page, "out 8" in page) == (True, True)


async def test_the_report_lists_the_files_that_a_failed_command_wrote(work: Path) -> None:
    result = await ran(work, FAILS)
    with closing(open_reader(work.parent / "gate.db")) as reader:
        summary = build_report(reader, result.run_id, 0.0)["summary"]
    made = str(work / "made")
    assert summary["resources"]["files_written"] == [made]
    [written] = [one for one in summary["attempts"] if one["kind"] == "files_written"]
    assert (written["name"], written["status"], written["code"]) == (made, "error", 2003)


async def test_the_report_lists_no_file_of_a_failed_command_that_was_kept_from_writing(work: Path) -> None:
    policy = {**POLICY, "rules": [{"pattern": "fs.write(*)", "action": "deny"}]}
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        result = await run_plan(gate, load_plan(plan_of(FAILS)))
    with closing(open_reader(work.parent / "gate.db")) as reader:
        summary = build_report(reader, result.run_id, 0.0)["summary"]
    assert not (work / "made").exists()
    assert summary["resources"]["files_written"] == []
