"""A question at a real terminal: in its frame, whole, drawn last, and answered only by what is typed after that."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_gate.doors.cli.question import width
from agent_gate.model.invisible import is_invisible
from tests.scenarios.test_cli import COMMAND, TIMEOUT_S, _environment, run_json

POLICY = "approvals_at_terminal: true\nrules: [{pattern: '*', action: ask}]\n"
PROMPT, PART = b"Allow it? [y/N] ", b"n: deny "
FRAME = ("╭─ ", "├─ ", "╰─ ", "│ ", "┊ ")


RUN = ("run", "plan.yaml", "--no-fail-fast")


def at_a_terminal(
    directory: Path,
    keys: Sequence[tuple[bytes, bytes]],
    *,
    columns: int = 100,
    rows: int = 24,
    ahead: bytes = b"",
    words: Sequence[str] = RUN,
) -> tuple[int, list[str]]:
    """Runs the plan; each time the next marker appears, the keys that belong to it are pressed."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.chdir(directory)
        os.execve(COMMAND, ["agent-gate", *words], _environment(TERM="xterm", NO_COLOR="1"))
    os.write(terminal, ahead)
    told, place, waiting = b"", 0, list(keys)
    while select.select([terminal], [], [], TIMEOUT_S)[0]:
        try:
            told += os.read(terminal, 65_536)
        except OSError:
            break
        while waiting and (found := told.find(waiting[0][0], place)) >= 0:
            marker, pressed = waiting.pop(0)
            place = found + len(marker)
            os.write(terminal, pressed)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.decode())
    return code, [line.rpartition("\r")[2] for line in plain.replace("\r\n", "\n").split("\n")]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def write_plan(directory: Path, *values: Any) -> None:
    steps = [{"tool": "state.set", "args": {"path": f"/{n}", "value": value}} for n, value in enumerate(values)]
    (directory / "plan.yaml").write_text(json.dumps({"name": "plan", "steps": steps}))


def resolutions(directory: Path) -> list[str]:
    return [entry["resolution"] for entry in reversed(run_json(directory, "audit")["entries"])]


def question_of(lines: Sequence[str]) -> list[str]:
    """The rows from the last beginning of a frame to the last prompt."""
    end = max(number for number, line in enumerate(lines) if line.startswith("╰─ Allow it?"))
    begin = max(number for number, line in enumerate(lines[:end]) if line.startswith("╭─ "))
    return list(lines[begin : end + 1])


def test_what_was_typed_before_a_question_was_shown_does_not_answer_it(work: Path) -> None:
    write_plan(work, "a", "b")
    code, _ = at_a_terminal(work, [(PROMPT, b"n\n"), (PROMPT, b"n\n")], ahead=b"y\ny\n")
    assert (code, resolutions(work)) == (1, ["denied", "denied"])


def test_two_answers_at_once_answer_one_question(work: Path) -> None:
    write_plan(work, "a", "b")
    at_a_terminal(work, [(PROMPT, b"y\ny\n"), (PROMPT, b"n\n")])
    assert resolutions(work) == ["approved", "denied"]


def test_blanks_draw_no_other_question(work: Path) -> None:
    forged = "harmless" + " " * 2_400 + "╭─ local asks to call state.get in project default"
    write_plan(work, forged)
    _, lines = at_a_terminal(work, [(PROMPT, b"n\n")])
    shown = question_of(lines)
    assert shown[0] == "╭─ local asks to call state.set in project default"
    assert "│ value │ harmless⟨U+0020×2400⟩╭─ local asks to call state.get in project default" in shown
    assert len(shown) < 24


@pytest.mark.parametrize(("columns", "rows"), [(100, 24), (40, 12), (24, 8)])
@pytest.mark.parametrize("value", ["漢字 " * 400, "x\n" * 300, "a\u0301\u0301" * 900, {"k": ["אב " * 1_500]}])
def test_a_long_question_is_read_screen_by_screen_and_asked_last(
    work: Path, columns: int, rows: int, value: Any
) -> None:
    write_plan(work, value)
    _, lines = at_a_terminal(work, [(PART, b"\n"), (PART, b"a\n"), (PROMPT, b"y\n")], columns=columns, rows=rows)
    begin = lines.index(next(line for line in lines if line.startswith("╭─ ")))
    framed = lines[begin : len(lines) - 1 - lines[::-1].index(question_of(lines)[-1])]
    assert all(line.startswith(FRAME) for line in framed)
    assert all(width(line) <= columns for line in framed if not line.startswith("╰─ "))
    parts = [number for number, line in enumerate(framed) if line.startswith("╰─ part")]
    assert [parts[0], parts[1] - parts[0] - 1] == [rows - 2, rows - 2]
    assert len(question_of(lines)) < rows
    assert resolutions(work) == ["approved"]


def test_a_no_needs_no_reading_to_the_end(work: Path) -> None:
    write_plan(work, "x\n" * 300)
    _, lines = at_a_terminal(work, [(PART, b"n\n")])
    assert resolutions(work) == ["denied"]
    assert not any(line.startswith("╰─ Allow it?") for line in lines)


def test_a_yes_before_the_end_only_reads_on(work: Path) -> None:
    write_plan(work, "x\n" * 30)
    at_a_terminal(work, [(PART, b"y\n"), (PART, b"y\n"), (PROMPT, b"\n")])
    assert resolutions(work) == ["denied"]


def test_a_terminal_that_is_too_small_for_a_question_gives_no_answer(work: Path) -> None:
    write_plan(work, "a")
    code, lines = at_a_terminal(work, [], columns=20, rows=5)
    assert code == 1
    assert "shows no question" in " ".join(lines)
    assert resolutions(work) == ["denied"]


@pytest.mark.parametrize("command", [("audit", "--json"), ("export",), ("state", "show", "--json")], ids="-".join)
def test_json_on_a_terminal_holds_nothing_that_the_terminal_obeys_or_hides(work: Path, command: Sequence[str]) -> None:
    (work / "policy.yaml").write_text("rules: [{pattern: '*', action: allow}]\n")
    hostile = "\x9b31m\u202e\u200b é"
    write_plan(work, {hostile: hostile})
    at_a_terminal(work, ())
    _, lines = at_a_terminal(work, (), words=command)
    shown = "\n".join(lines)
    assert not [c for c in shown if c != "\n" and is_invisible(c)]
    assert "\\u202e" in shown
    assert "é" in shown


def test_json_for_a_machine_is_as_it_was(work: Path) -> None:
    (work / "policy.yaml").write_text("rules: [{pattern: '*', action: allow}]\n")
    write_plan(work, "\x9b\u202e")
    at_a_terminal(work, ())
    assert run_json(work, "audit")["entries"][0]["signatures"] == ["state.set(/0, %C2%9B\u202e)"]
