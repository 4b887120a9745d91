"""Tests of how things that go wrong are told: one line, one code, one exit code."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from agent_gate.__main__ import main
from agent_gate.doors.cli import faults, program
from agent_gate.doors.codes import Exit, exit_of_decision, exit_of_outcome, exit_of_problem
from agent_gate.model.errors import NAMES, ConfigError, GateError, Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.verdict import Decision


@pytest.mark.parametrize("code", NAMES)
def test_every_code_has_its_exit_code(code: int) -> None:
    expected = {1016: 4, 4001: 3, 4002: 6, 4003: 6, 4004: 6, 5001: 5, 5004: 6, 6003: 1}
    assert exit_of_problem(Problem(code, "")) == expected.get(code, 1 if code < 2000 else 3)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (Status.SUCCESS, None, 0),
        (Status.DENIED, 1001, 1),
        (Status.ERROR, 2003, 3),
        (Status.EXPIRED, 1016, 4),
        (Status.UNKNOWN, 2007, 3),
        (Status.UNKNOWN, None, 3),
        (Status.PENDING_APPROVAL, None, 4),
    ],
)
def test_every_outcome_has_its_exit_code(status: Status, code: int | None, expected: int) -> None:
    error = None if code is None else Problem(code, "")
    assert exit_of_outcome(Outcome(call_id="1", status=status, error=error)) == expected


def test_every_decision_has_its_exit_code() -> None:
    assert [exit_of_decision(decision) for decision in (Decision.ALLOW, Decision.DENY, Decision.ASK)] == [0, 1, 4]


def test_several_mistakes_of_a_file_are_told_one_by_one() -> None:
    fault = faults.fault_of(ConfigError.of_all(["a.yaml:1: x", "a.yaml:2: y"]))
    assert fault.lines == ["config: a.yaml:1: x", "config: a.yaml:2: y"]
    assert fault.error["problems"] == ["a.yaml:1: x", "a.yaml:2: y"]
    assert fault.exit is Exit.ERROR


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (GateError("a\nb", code=1001, suggestion="c"), 1001, "policy_denied: a b; c"),
        (FileNotFoundError(2, "No such file", "x"), 5003, "storage_read: `x`: No such file; check the path and"),
        (sqlite3.DatabaseError("malformed"), 5003, "storage_read: the ledger cannot be read: malformed"),
        (KeyError("x"), 2003, "tool_failed: unexpected KeyError: 'x'; this is a defect of agent-gate: set AGENT_GATE"),
    ],
)
def test_an_error_is_one_line_with_a_code(error: Exception, code: int, line: str) -> None:
    fault = faults.fault_of(error)
    assert fault.error["code"] == code
    (told,) = fault.lines
    assert told.startswith(line)
    assert "\n" not in told


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def invoke(args: object) -> int:
        raise error

    monkeypatch.setattr(program, "_invoke", invoke)


def test_an_unexpected_error_shows_its_traceback_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, ZeroDivisionError("x"))
    monkeypatch.setenv("AGENT_GATE_DEBUG", "0")
    assert program.run(["audit"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("AGENT_GATE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        program.run(["audit"])


def test_an_interrupted_command_exits_as_shells_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    assert program.run(["audit"]) == 130


def test_ctrl_c_outside_the_program_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", interrupted)
    monkeypatch.setattr(sys, "argv", ["agent-gate", "audit"])
    assert main() == Exit.INTERRUPTED


def test_control_characters_in_a_message_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raising(monkeypatch, GateError("a\x1b[2Jb\u202e", code=1001))
    assert program.run(["audit"]) == 1
    assert capsys.readouterr().err == "agent-gate: policy_denied: a⟨U+001B⟩[2Jb⟨U+202E⟩\n"
