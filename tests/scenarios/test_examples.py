"""The examples are what the README shows, so they run, and print what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "first_call.py": [
        "success -> ({'op': 'add', 'path': '/lights', 'value': {'kitchen': 'on'}},)",
        "error -> bad_arguments",
    ],
    "look_again.py": [
        "replayed 3 steps, 0 not as recorded",
        "step 0 -> state.set(/lights/kitchen, on): allow would be deny",
        "step 2 -> state.set(/seen, on): allow would be deny",
        "verified",
    ],
    "own_tools.py": ["success 1 notes", "denied -> policy_denied", "pending_approval until", "success {'sent_to':"],
    "run_a_plan.py": [
        "would be: ['success', 'success', 'success']",
        "was: completed",
        "success state of version 1 again",
    ],
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_and_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(tmp_path / "agent-gate.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.startswith(start) for line, start in zip(lines, PRINTED[name], strict=True)] == [True] * len(lines)


def test_a_secret_of_the_example_is_nowhere_in_the_files_of_the_ledger(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(EXAMPLES / "own_tools.py"), str(tmp_path / "a.db")], check=True, capture_output=True
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"hunter2" in path.read_bytes()] == []
