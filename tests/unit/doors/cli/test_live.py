"""What a run shows while it goes on: a line for each step, and lines that move."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from agent_gate import Outcome
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.live import LiveView
from agent_gate.doors.cli.progress_bar import ProgressBar, clock_time
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Status
from agent_gate.model.plan import PlanStep
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason

SHELL = PlanStep("shell.run", name="tidy")


def shown(capsys: pytest.CaptureFixture[str], outcome: Outcome) -> list[str]:
    LiveView(3, None).step(1, SHELL, outcome)
    return capsys.readouterr().out.splitlines()


def simulated(data: Json = None, message: str = "") -> Outcome:
    return Outcome(call_id="", status=Status.SUCCESS, simulated=True, data=data, message=message)


@pytest.mark.parametrize(("seconds", "took"), [(0.0125, "12.5 ms"), (2.5, "2.5 s"), (90.04, "90.0 s")])
def test_a_step_is_a_line_with_its_place_and_its_time(
    capsys: pytest.CaptureFixture[str], seconds: float, took: str
) -> None:
    outcome = Outcome(call_id="", status=Status.SUCCESS, started_at=100.0, ended_at=100.0 + seconds)
    assert shown(capsys, outcome) == [f"✓ 2/3  tidy  {took}"]


def test_a_step_that_was_refused_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(call_id="", status=Status.DENIED, error=Problem(1002, "outside", "add it"))
    assert shown(capsys, outcome) == ["✗ 2/3  tidy", "    path_denied: outside; add it"]


def test_a_live_step_does_not_show_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"changes": [{"path": "/x", "change": "added"}]}
    outcome = Outcome(call_id="", status=Status.SUCCESS, data=data, message="done")
    assert shown(capsys, outcome) == ["✓ 2/3  tidy"]


def test_what_a_command_would_change_is_shown_and_cannot_deceive(capsys: pytest.CaptureFixture[str]) -> None:
    changes = [
        {"path": "/w/a\x1b[2J", "change": "changed", "diff": "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-o\tne\n+\u202etwo"},
        {"path": "/w/big", "change": "changed", "diff": "a/w/big: 9 bytes, sha256 aa\nb/w/big: 8 bytes, sha256 bb"},
        {"path": "/w/gone", "change": "removed"},
    ]
    assert shown(capsys, simulated({"return_code": 2, "changes": changes}, "on a copy")) == [
        "✓ 2/3  tidy",
        "    return code 2",
        "    on a copy",
        "    changed  /w/a⟨U+001B⟩[2J",
        "      @@ -1 +1 @@",
        "      -o⇥   ne",
        "      +⟨U+202E⟩two",
        "    changed  /w/big",
        "      a/w/big: 9 bytes, sha256 aa",
        "      b/w/big: 8 bytes, sha256 bb",
        "    removed  /w/gone",
    ]


def test_a_command_that_failed_says_so_though_the_step_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"return_code": 2, "stdout": "cc a.c\n", "stderr": "first\nmake: *** \x1b[2JError 1\n"}
    files = ({"path": "/w/a.o", "change": "added", "bytes": 1},)
    assert shown(capsys, Outcome(call_id="", status=Status.SUCCESS, data=data, files=files)) == [
        "✓ 2/3  tidy",
        "    return code 2",
        "    stdout  cc a.c",
        "    stderr  first",
        "            make: *** ⟨U+001B⟩[2JError 1",
        "    added  /w/a.o",
    ]


def test_a_simulation_says_why_a_person_would_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(
        call_id="",
        status=Status.PENDING_APPROVAL,
        simulated=True,
        message="a person would have to agree",
        reasons=(Reason("guard", Decision.ASK, text="`make` is not listed"),),
    )
    assert shown(capsys, outcome)[1:] == ["    a person would have to agree: `make` is not listed"]


def test_a_command_that_would_change_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    shows = shown(capsys, simulated({"return_code": 0, "changes": []}))[1:]
    assert shows == ["    return code 0", "    no file would change"]


def test_a_long_name_leaves_room_for_the_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "columns", lambda: 60)
    outcome = Outcome(call_id="", status=Status.SUCCESS, started_at=1.0, ended_at=2.0)
    LiveView(3, None).step(0, PlanStep("x", name="n" * 200), outcome)
    [line] = capsys.readouterr().out.splitlines()
    assert (len(line) <= 60, line.endswith(" more  1.0 s")) == (True, True)


def drawn(moving: ProgressBar) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(moving._drawn())
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_foot_tells_how_far_the_run_is_and_what_runs_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    moving = ProgressBar(Console(file=io.StringIO()), "my plan", 3)
    moving.begin_step("step 1 of 3  fs.read")
    moving.end_step()
    now = 1065.0
    moving.begin_step("step 2 of 3  shell.run")
    now = 1070.0
    step, whole, *_ = drawn(moving).splitlines()
    assert step.rstrip().endswith("step 2 of 3  shell.run 0:05")
    assert (whole.startswith("my plan "), whole.rstrip().endswith("1/3 1:10")) == (True, True)
    moving.end_step()
    assert "2/3" in drawn(moving)
    assert "shell.run" not in drawn(moving)


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0:00"), (61, "1:01"), (3725, "1:02:05")])
def test_time_is_told_as_on_a_clock(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text


def test_long_work_shows_a_sign_of_life_only_to_whoever_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with screen.working("counting") as told:
        told(5)
    assert capsys.readouterr().err == ""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with screen.working("counting") as told:
        told(12_345)
    assert "counting: 12,345" in capsys.readouterr().err
