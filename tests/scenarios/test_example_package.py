"""The example package, installed as anybody would: the gate finds its tools, judges, runs and undoes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "todo_service"
COMMAND = Path(sys.executable).with_name("agent-gate")
TIMEOUT_S = 120
DENIED = 1


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built and installed offline into a directory of its own, from a copy: nothing is left beside the sources."""
    source = tmp_path_factory.mktemp("source") / PACKAGE.name
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    done = subprocess.run([*pip, *offline, str(source)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return target


def agent_gate(installed: Path, work: Path, *words: object) -> tuple[int, Any]:
    """The command in a directory of its own, and what it printed for machines."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AGENT_GATE_", "TODO_"))}
    done = subprocess.run(
        [COMMAND, *map(str, words), "--json"],
        cwd=work,
        env={**kept, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_an_installed_package_offers_its_tools_to_every_gate_and_they_are_judged_recorded_and_undone(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "todo.txt").write_text("feed the cat\n")
    policy = PACKAGE / "policy.yaml"
    code, report = agent_gate(installed, tmp_path, "run", PACKAGE / "plan.yaml", "-p", policy)
    steps = [(step["signatures"], step["result"]["status"]) for step in report["steps"]]
    assert (code, steps) == (
        DENIED,
        [
            (["todo.add(water the plants)"], "success"),
            (["todo.list(water)"], "success"),
            (["todo.add(pay the gardener)"], "denied"),
        ],
    )
    assert report["steps"][1]["result"]["data"] == {"tasks": ["water the plants"]}
    assert (tmp_path / "todo.txt").read_text() == "feed the cat\nwater the plants\n"

    with (tmp_path / "todo.txt").open("a") as todo:
        todo.write("call anna\n")
    added = report["steps"][0]["call_id"]
    code, undone = agent_gate(installed, tmp_path, "revert", added, "-p", policy)
    assert (code, undone["data"]) == (0, {"taken_off": "water the plants"})
    assert (tmp_path / "todo.txt").read_text() == "feed the cat\ncall anna\n"
    code, refused = agent_gate(installed, tmp_path, "revert", added, "-p", policy)
    assert (code, refused["error"]["name"]) == (3, "bad_arguments")
    assert "undone already" in refused["error"]["detail"]

    code, replayed = agent_gate(installed, tmp_path, "replay", report["run"]["run_id"])
    assert (code, replayed["mismatches"]) == (0, [])


COUNTING = """
from agent_gate import transition
from agent_gate.toolkit import registered_tool

@transition("count.up")
def up(inputs, state):
    return {**state, "n": state.get("n", 0) + 1}, ""

class Counting:
    name, dependencies = "counting", ()
    def registered_tools(self): return [registered_tool(up)]
    def tools(self): return [registered_tool(up).declaration]
    async def start(self): ...
    async def execute(self, tool_name, args): ...
    async def health_check(self): return True
    async def close(self): ...
"""


def test_pure_steps_of_an_installed_package_are_done_again_by_replay(tmp_path: Path) -> None:
    found = tmp_path / "counting-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1\n")
    (found / "entry_points.txt").write_text("[agent_gate.services]\ncounting = counting:Counting\n")
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "policy.yaml").write_text("rules: [{pattern: count.up, action: allow}]\n")
    (tmp_path / "plan.yaml").write_text('{version: "1.0", name: p, steps: [{tool: count.up}]}\n')
    code, report = agent_gate(tmp_path, tmp_path, "run", "plan.yaml", "-p", "policy.yaml")
    assert (code, report["run"]["status"]) == (0, "completed")
    code, replayed = agent_gate(tmp_path, tmp_path, "replay", report["run"]["run_id"])
    assert (code, replayed["mismatches"]) == (0, [])


def test_without_the_package_its_plan_is_refused_and_the_message_says_what_is_missing(tmp_path: Path) -> None:
    words = ("run", PACKAGE / "plan.yaml", "-p", PACKAGE / "policy.yaml")
    done = subprocess.run(
        [COMMAND, *map(str, words)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode != 0
    assert "`todo.add` is not a tool here" in done.stdout + done.stderr


def test_check_knows_the_signatures_and_the_guard_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    words = ("check", "-p", PACKAGE / "policy.yaml", "--tool", "todo.add", "--args")
    code, allowed = agent_gate(installed, tmp_path, *words, '{"task": "a", "lists": ["main", "groceries"]}')
    assert (code, allowed["signatures"]) == (0, ["todo.add(a)", "todo.add(a, groceries)"])
    code, denied = agent_gate(installed, tmp_path, *words, '{"task": "a", "lists": ["secret"]}')
    assert (code, denied["error"]["detail"]) == (DENIED, "list `secret` is not in allow_lists of todo.add")
    assert not (tmp_path / "todo.txt").exists()
