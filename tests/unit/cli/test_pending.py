"""How one question is shown whole in a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.doors.cli.pending import _show

WROTE = [{"path": "/w/a", "change": "changed", "diff": "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-old\n+new\r-forged"}]


def shown(capsys: pytest.CaptureFixture[str], **fields: Any) -> list[str]:
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
    _show(question | fields)
    return capsys.readouterr().out.splitlines()


def test_what_a_command_wrote_is_shown_as_differences(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, has_run=True)
    assert lines[3:10] == [
        "  command │ make",
        "  The command has run on a copy, and nothing is written yet. It would change:",
        "  │ changed  /w/a",
        "  │   @@ -1 +1 @@",
        "  │   -old",
        "  │   +newU+000D-forged",
        "  agreed   0 of 1",
    ]


def test_an_argument_of_that_name_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert any(line.startswith("  wrote   │ [{") for line in lines)
    assert not any("has run" in line for line in lines)
