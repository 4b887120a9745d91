"""How one question is shown whole in a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.doors.cli.approvals import _show

WROTE = [{"path": "/w/a", "change": "changed", "diff": "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-old\n+new\r-forged"}]


def shown(capsys: pytest.CaptureFixture[str], *, whole: bool = False, **fields: Any) -> list[str]:
    question = {
        "call_id": "01A",
        "agent_id": "bot",
        "tool": "shell.run",
        "project": "default",
        "signatures": ["shell.run(make)", "fs.write(/w/a)"],
        "args": {"command": "make", "wrote": WROTE},
        "reasons": [],
        "approved_by": [],
        "approvers_required": 1,
        "expires_at": "2026-01-01T00:00:00Z",
    }
    _show(question | fields, whole=whole)
    return capsys.readouterr().out.splitlines()


def test_what_a_command_wrote_is_shown_as_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, has_run=True) == [
        "╭─ bot asks to call shell.run in project default",
        "│ shell.run(make)",
        "│ fs.write(/w/a)",
        "├─ arguments, as the agent gave them",
        "│ command │ make",
        "├─ The command has run on a copy, and nothing is written yet. It would change:",
        "├─ changed /w/a",
        "│ @@ -1 +1 @@",
        "│ -old",
        "│ +new⟨U+000D⟩-forged",
        "╰─ agreed: 0 of 1 · until 2026-01-01 00:00:00 UTC",
        "   agent-gate approve 01A, or deny",
    ]


def test_an_argument_of_that_name_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert any(line.startswith("│ wrote (JSON) │ [{") for line in lines)
    assert not any("has run" in line for line in lines)


def test_of_a_long_question_a_part_is_shown_and_how_to_see_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    args = {"text": "x" * 100_000, "lines": "y\n" * 1_000}
    lines = shown(capsys, args=args)
    assert f"│ text  │ {'x' * 4_000}" in lines
    assert "│       │ … 96,000 more" in lines
    assert lines[400] == "├─ … 607 more lines: agent-gate pending 01A --all"
    assert len(lines) == 403
    assert len(shown(capsys, whole=True, args=args)) > 1_000
