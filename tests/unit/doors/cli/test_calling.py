"""What a gate logs while a command runs it: lines for the terminal of the person who started it."""

from __future__ import annotations

import logging

import pytest

from agent_gate.doors.cli.calling import opened_with


def test_what_is_logged_cannot_move_what_stands_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    before = logging.lastResort.formatter if logging.lastResort else None
    opened_with(None)
    handler = logging.lastResort
    assert handler is not None
    try:
        record = logging.LogRecord("gate", logging.WARNING, "", 0, "said \x1b[2J\u202e\n  below", None, None)
        assert handler.format(record) == "warning: said ⟨U+001B⟩[2J⟨U+202E⟩\n  below"
    finally:
        handler.setFormatter(before)
    assert capfd.readouterr().err == ""
