"""A denial's message alone is enough to mend the policy, the plan or the call: nobody has to read the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_gate import PlanValidationError, load_policy, open_gate, run_plan
from agent_gate.config.yaml_file import load_yaml
from agent_gate.model.outcome import Outcome
from agent_gate.model.plan import Plan, PlanStep
from tests.scenarios.test_cli import run

BARE = {"version": 1}


async def outcome_of(directory: Path, policy: dict[str, Any], tool: str, args: dict[str, Any]) -> Outcome:
    async with open_gate(policy, directory / "gate.db", working_dir=directory) as gate:
        return await gate.call(tool, args)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("fs.read", {"path": "notes.txt"}),
        ("fs.write", {"path": "out/notes.txt", "content": "x"}),
        ("http.get", {"url": "https://api.example.com/"}),
        ("shell.run", {"argv": ["ls"]}),
    ],
)
async def test_a_tool_without_a_section_is_told_a_section_that_loads(
    tmp_path: Path, tool: str, args: dict[str, Any]
) -> None:
    outcome = await outcome_of(tmp_path, BARE, tool, args)
    assert outcome.error is not None
    written, _, section = outcome.error.suggestion.partition(": ")
    assert written == "add one"
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\n{section}\n")
    assert list(load_policy(policy).source["tools"]) == [tool]


async def test_wrong_arguments_are_told_which_ones_there_are(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, BARE, "fs.read", {"file": "notes.txt"})
    assert outcome.error is not None
    assert outcome.error.suggestion == "its arguments are path (required), binary, encoding"


async def test_a_call_that_nobody_can_be_asked_about_is_told_how_to_be_asked(tmp_path: Path) -> None:
    outcome = await outcome_of(tmp_path, BARE, "state.set", {"path": "/x", "value": 1})
    assert "approvals_at_terminal: true" in str(outcome.error)


async def test_an_unknown_tool_in_a_plan_is_told_the_nearest_ones(tmp_path: Path) -> None:
    async with open_gate(BARE, tmp_path / "gate.db") as gate:
        with pytest.raises(PlanValidationError) as raised:
            await run_plan(gate, Plan((PlanStep("fs.raed", {}),), name="typo"))
    assert raised.value.problem.suggestion == "did you mean `fs.read`?"


async def test_a_plan_s_unknown_tool_that_resembles_none_is_told_all(tmp_path: Path) -> None:
    async with open_gate(BARE, tmp_path / "gate.db") as gate:
        with pytest.raises(PlanValidationError) as raised:
            await run_plan(gate, Plan((PlanStep("zzz", {}),), name="typo"))
    assert "fs.read, fs.write" in raised.value.problem.suggestion


PLAN = """
version: "1.0"
name: take over
steps: [{tool: fs.write, args: {path: policy.yaml, content: "version: 1"}}]
"""
OPEN = """
version: 1
tools: {fs.write: {allow_paths: ["./**"]}}
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_plan_cannot_write_the_policy_that_judges_it(tmp_path: Path, elsewhere: bool) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "policy.yaml").write_text(OPEN)
    words = ["run", "plan.yaml", "-p", "policy.yaml", "--json"]
    (tmp_path / "work").mkdir()
    if elsewhere:
        (tmp_path / "work/policy.yaml").symlink_to("../policy.yaml")
        (tmp_path / "policy.yaml").write_text(OPEN.replace("./**", "../**"))
        words += ["--working-dir", "work"]
    done = run(tmp_path, *words)
    [step] = json.loads(done.stdout)["steps"]
    assert (done.returncode, step["result"]["error"]["name"]) == (1, "protected_file")
    assert load_yaml(tmp_path / "policy.yaml", 1000).value["tools"]
