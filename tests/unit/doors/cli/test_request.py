"""Tests of `agent-gate request` that need no server."""

from __future__ import annotations

import pytest

from agent_gate.doors.cli import request, screen


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_whoever_sits_at_a_terminal_is_told_that_a_call_waits(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "on_terminal", lambda _: is_terminal)
    request._tell_that_it_waits()
    printed = capsys.readouterr()
    assert (printed.out, "agent-gate pending" in printed.err) == ("", is_terminal)
