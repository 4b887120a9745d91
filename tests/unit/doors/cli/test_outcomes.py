"""Tests of how a call's outcome is shown: short results on one line, longer ones whole, endless ones cut off."""

from __future__ import annotations

import pytest

from agent_gate.doors.cli.outcomes import RESULT_LINES_MAX, print_outcome
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json


def _shown(data: Json, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_outcome(Outcome(call_id="call", status=Status.SUCCESS, data=data))
    return capsys.readouterr().out.splitlines()


def test_a_short_result_stands_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert '  result  {"count":2}' in _shown({"count": 2}, capsys)


def test_a_result_that_fits_no_line_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"light.number_{number}" for number in range(30)]
    shown = "\n".join(_shown({"entities": names}, capsys))
    assert [name for name in names if f'"{name}"' not in shown] == []


def test_a_result_of_many_lines_is_cut_off_and_says_where_all_of_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(list(range(10_000)), capsys)
    assert (len(shown), shown[-2].strip()) == (RESULT_LINES_MAX + 3, "… 10002 lines in all; --json prints them whole")


def test_no_line_of_a_result_is_endless(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown({"content": "a" * 100_000}, capsys)
    assert (max(map(len, shown)) < 300, shown[-2].strip()) == (True, "… 3 lines in all; --json prints them whole")


def test_what_a_result_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x9b" not in "".join(_shown({"text": ["\x9b2J"] * 100}, capsys))


@pytest.mark.parametrize(("status", "label"), [(Status.SUCCESS, "files"), (Status.DENIED, "not written")])
def test_files_that_were_not_written_are_not_told_as_if_they_were(
    capsys: pytest.CaptureFixture[str], status: Status, label: str
) -> None:
    print_outcome(Outcome(call_id="call", status=status, files=({"path": "/w/a", "change": "added", "bytes": 2},)))
    assert f"  {label}  added  /w/a" in capsys.readouterr().out.splitlines()
