"""What a person reads of a run afterwards: report, show-run, list-runs, revert, replay and `policy try`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.test_cli import _at_a_terminal as at_a_terminal
from tests.scenarios.test_cli import run, run_json

POLICY = """
version: 1
tools:
  fs.read: {allow_paths: ["notes/**"]}
  fs.write: {allow_paths: ["./**"]}
  shell.run: {allow_executables: [ls], sandbox: off}
rules:
  - {pattern: "gate.revert(*)", action: allow}
  - {pattern: "fs.write(*)", action: allow}
"""
PLAN = """
version: "1.0"
name: weekly summary
steps:
  - {id: list, name: read the list, tool: fs.read, args: {path: notes/list.txt}}
  - {tool: fs.write, args: {path: notes/todo.txt, content: "${steps.list.data.content}"}}
  - {tool: shell.run, args: {argv: [ls, notes]}}
  - {tool: fs.read, args: {path: /etc/passwd}}
  - {tool: fs.write, args: {path: agent-gate.db, content: x}}
  - {tool: fs.write, args: {path: policy.yaml, content: x}}
"""


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/list.txt").write_text("milk\neggs\n")
    (tmp_path / "notes/todo.txt").write_text("before\n")
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert run(tmp_path, "run", "plan.yaml", "--no-fail-fast").returncode == 1
    return tmp_path


def run_id(directory: Path) -> str:
    return str(run_json(directory, "list-runs")["runs"][0]["run_id"])


def told(directory: Path, *words: object) -> str:
    return run(directory, *words).stdout.decode()


def test_the_report_shows_a_timeline_reasons_remedies_and_what_was_touched(worked: Path) -> None:
    lines = told(worked, "report", run_id(worked)).splitlines()
    first = next(line for line in lines if line.startswith("✓ 1 "))
    assert first.endswith("read the list")
    assert "━" in first
    assert " ms" in first
    denied = next(number for number, line in enumerate(lines) if line.startswith("✗ 4 "))
    assert lines[denied + 1 : denied + 3] == [
        "      why           `/etc/passwd` is outside allow_paths of fs.read (notes/**) (1002 path_denied)",
        "      to change it  add it there, or read a file that they cover",
    ]
    touched = lines[lines.index("touched") + 1 :]
    assert [line.split()[:2] for line in touched] == [["files", "read"], ["files", "written"], ["commands", "run"]]


def test_the_report_says_where_commands_ran_without_a_sandbox(worked: Path) -> None:
    lines = told(worked, "report", run_id(worked)).splitlines()
    assert "  sandbox  off: the policy lets commands run without one" in lines
    assert "      sandbox  off" in lines
    assert run_json(worked, "report", run_id(worked))["summary"]["sandboxes"] == ["off"]


@pytest.mark.parametrize("words", [["list-runs"], ["report", "RUN"], ["show-run", "RUN"]])
def test_nothing_is_wider_than_a_terminal_of_80_columns_but_what_must_not_be_broken(
    worked: Path, words: list[str]
) -> None:
    which = [run_id(worked) if word == "RUN" else word for word in words]
    _, shown = at_a_terminal(worked, "", *which, columns=80)
    texts = [line for line in plain(shown).splitlines() if str(worked) not in line]
    assert [line for line in texts if len(line) > 80] == []


def plain(text: str) -> str:
    """Without colours."""
    first, *others = text.replace("\r\n", "\n").split("\x1b[")
    return first + "".join(part.partition("m")[2] for part in others)


def test_a_run_is_shown_with_each_call_s_id_verdict_and_hashes(worked: Path) -> None:
    shown = told(worked, "show-run", run_id(worked))
    steps = run_json(worked, "show-run", run_id(worked))["steps"]
    assert len(steps) == 6
    for step in steps:
        assert f"     call       {step['call_id']}\n" in shown
        assert step["result"]["input_hash"] in shown
    assert '"${steps' not in shown


def test_a_revert_that_is_refused_shows_a_diff_in_lines_that_no_escape_can_leave(worked: Path) -> None:
    [call] = [
        entry["call_id"]
        for entry in run_json(worked, "audit", "--tool", "fs.write")["entries"]
        if entry["status"] == "success"
    ]
    (worked / "notes/todo.txt").write_text("milk\nhoney \x1b[2J\u202e\n")
    done = run(worked, "revert", call)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 3
    margin = " " * len("  to change it  ")
    assert f"{margin}-eggs" in lines
    assert f"{margin}+honey ⟨U+001B⟩[2J⟨U+202E⟩" in lines
    assert "U+000A" not in done.stdout.decode()
    (worked / "notes/todo.txt").write_text("milk\neggs\n")
    assert "restored_bytes" in told(worked, "revert", call)
    assert (worked / "notes/todo.txt").read_text() == "before\n"


def test_a_replay_names_its_original_and_under_another_policy_the_steps_that_change(worked: Path) -> None:
    original = run_id(worked)
    (worked / "other.yaml").write_text(POLICY.replace("[ls]", "[wc]"))
    shown = told(worked, "replay", original, "-p", "other.yaml")
    assert "changed  step 3: shell.run(ls notes): allow would be deny\n" in shown
    assert shown.endswith("1 verdict would change under other.yaml\n")
    assert f"  replay of  {original}\n" in told(worked, "report", run_id(worked))


def test_trying_the_same_policy_changes_nothing_not_even_for_the_gate_s_own_files(worked: Path) -> None:
    done = run(worked, "policy", "try", "-p", "policy.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["flips"]) == (0, [])
    (worked / "copy.yaml").write_text(POLICY)
    done = run(worked, "policy", "try", "-p", "copy.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["flips"]) == (0, [])


def test_trying_another_policy_says_why_each_verdict_would_change(worked: Path) -> None:
    (worked / "other.yaml").write_text(POLICY.replace("[ls]", "[wc]"))
    done = run(worked, "policy", "try", "-p", "other.yaml")
    assert done.returncode == 0
    assert "`ls` is not in allow_executables of shell.run (wc)" in done.stdout.decode()
    (worked / "other.yaml").write_text(POLICY.replace('"notes/**"', '"/etc/passwd", "notes/**"'))
    assert run(worked, "policy", "try", "-p", "other.yaml").returncode == 1
