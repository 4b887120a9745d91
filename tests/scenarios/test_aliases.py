"""A deny holds for every spelling: aliases of calls through the whole gate, its record and its cooldown."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import load_policy
from agent_gate.history.policy_try import try_policy
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.outcome import Status
from agent_gate.policy.judge import Judge
from tests.gates import ALLOW_ALL, HandClock, a_gate, code_of, deny, entries, outcome_of, pending

TOOLS: dict[str, Any] = {
    "shell.run": {"allow_executables": ["git", "cat"], "sandbox": "off"},
    "fs.read": {"allow_paths": ["./**"]},
}
DENIED = {"tools": TOOLS, "rules": [{"pattern": "shell.run(git log*)", "action": "deny"}]}
SPELLINGS = ["git log", "/usr/bin/git log", "git --no-pager log", "git -C . log", "/bin/git -P log --oneline"]


@pytest.fixture(autouse=True)
def repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)


@pytest.mark.parametrize("command", SPELLINGS)
async def test_a_denied_command_is_denied_in_every_spelling(tmp_path: Path, command: str) -> None:
    async with a_gate(tmp_path, DENIED, working_dir=tmp_path) as gate:
        outcome = await gate.call("shell.run", command=command)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert outcome.error is not None
        assert "shell.run(git log*)" in outcome.error.detail


@pytest.mark.parametrize("command", SPELLINGS)
async def test_a_command_that_is_asked_about_is_asked_about_in_every_spelling(tmp_path: Path, command: str) -> None:
    policy = {"tools": TOOLS, "rules": [{"pattern": "shell.run(git log*)", "action": "ask"}]}
    async with a_gate(tmp_path, policy, working_dir=tmp_path) as gate:
        await pending(gate, "shell.run", {"command": command})


async def test_aliases_are_recorded_and_a_policy_that_is_tried_sees_them(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, working_dir=tmp_path) as gate:
        patch = [{"op": "add", "path": "/locks", "value": "open"}]
        assert (await gate.call("state.patch", patch=patch)).status is Status.SUCCESS
        assert (await gate.call("state.get", path="/locks")).status is Status.SUCCESS
        bodies = [entry["body"] for entry in entries(gate, "settled")]
        assert [body.get("aliases") for body in bodies] == [["state.set(/locks)"], None]
        assert verify(tmp_path / "gate.db").ok
    stricter = Judge(load_policy({"rules": [*ALLOW_ALL["rules"], {"pattern": "state.set(/locks)", "action": "deny"}]}))
    with closing(open_reader(tmp_path / "gate.db")) as reader:
        trial = try_policy(reader, stricter)
    assert [(flip.signatures[0][:11], flip.would_be) for flip in trial.flips] == [("state.patch", "deny")]


async def test_a_no_to_the_plain_spelling_counts_for_the_others(tmp_path: Path) -> None:
    policy = {
        "tools": TOOLS,
        "rules": [{"pattern": "shell.run(*git log*)", "action": "ask"}],
        "cooldown_seconds": 60,
    }
    clock = HandClock()
    async with a_gate(tmp_path, policy, working_dir=tmp_path, clock=clock) as gate:
        question = await pending(gate, "shell.run", {"command": "git log"})
        await deny(gate, question)
        assert code_of(await outcome_of(gate, question)) == 1015
        assert code_of(await gate.call("shell.run", command="/usr/bin/git log")) == 1022
        clock.advance(61)
        await pending(gate, "shell.run", {"command": "/usr/bin/git log"})
