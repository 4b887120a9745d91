"""A command is a transaction: what it wrote is judged path by path, and then all of it counts or nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of

_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(
    _picked is None or not _picked.layers, reason="no sandbox of this machine keeps apart what a command writes"
)


def policy_of(*, rules: list[dict[str, Any]] | None = None, **shell: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "rules": rules or [],
        "tools": {
            "fs.read": {"allow_paths": ["./**"]},
            "fs.write": {"allow_paths": ["./**"], "deny_paths": ["**/denied/**", "**/denied.txt"]},
            "shell.run": {
                "allow_executables": ["sh", "python3"],
                "unchecked_executables": ["sh", "python3"],
                "timeout_seconds": 30,
                **shell,
            },
        },
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    (work / "old").write_text("one\n")
    (work / "gone").write_text("bye\n")
    (work / "sub").mkdir()
    (work / "sub" / "x").write_text("x\n")
    return work


async def sh(gate: Gate, script: str) -> Outcome:
    return await gate.call("shell.run", argv=["sh", "-c", script])


def tree(folder: Path) -> dict[str, Any]:
    """All that lies below: kind, mode and content."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (oct(status.st_mode), content)
    return found


def changed(outcome: Outcome, work: Path) -> dict[str, str]:
    return {os.path.relpath(file["path"], work): file["change"] for file in outcome.files or ()}


async def test_what_a_command_wrote_is_committed_and_told(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(
            gate,
            "echo two >> old; rm gone; chmod 700 sub/x; mkdir -p new/deep; echo n > new/deep/n; ln -s old link; exit 3",
        )
    assert (outcome.status, outcome.data["return_code"]) == (Status.SUCCESS, 3), outcome
    assert changed(outcome, work) == {
        "gone": "removed",
        "link": "added",
        "new": "added",
        "new/deep": "added",
        "new/deep/n": "added",
        "old": "changed",
        "sub/x": "mode",
    }
    assert (work / "old").read_text() == "one\ntwo\n"
    assert not (work / "gone").exists()
    assert (work / "sub" / "x").stat().st_mode & 0o777 == 0o700
    assert os.readlink(work / "link") == "old"
    assert (work / "new" / "deep" / "n").read_text() == "n\n"
    assert not [path for path in work.rglob(".agent-gate-*")]
