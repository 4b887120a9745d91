"""The same stories at moments that are easily forgotten: late in the evening, a leap day, a change of the clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent_gate.doors.cli.program import run
from agent_gate.model.moment import epoch, iso
from agent_gate.model.outcome import Status
from tests.gates import (
    ALLOW_ALL,
    ASK_ALL,
    PATIENCE_S,
    HandClock,
    a_gate,
    code_of,
    outcome_of,
    pending,
    reader,
    sender,
)

BERLIN = ZoneInfo("Europe/Berlin")
MOMENTS = {
    "late in the evening": "2026-11-17T23:30Z",
    "at the last moment of a year": "2026-12-31T23:59:59.999999Z",
    "on a leap day": "2028-02-29T11:00Z",
    "late on a leap day": "2028-02-29T23:30Z",
    "before clocks go forward": "2026-03-29T00:59:59Z",
    "after clocks went forward": "2026-03-29T01:00Z",
    "in the hour that comes twice": "2026-10-25T00:30Z",
    "in the same hour again": "2026-10-25T01:30Z",
}
at_any_moment = pytest.mark.parametrize("moment", [epoch(text) for text in MOMENTS.values()], ids=list(MOMENTS))


def next_midnight(moment: float, zone: ZoneInfo) -> float:
    day = datetime.fromtimestamp(moment, zone).date() + timedelta(days=1)
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


@at_any_moment
async def test_a_daily_budget_lasts_until_midnight_of_its_zone_and_not_a_second_longer(
    tmp_path: Path, moment: float
) -> None:
    clock = HandClock(moment)
    policy = {**ALLOW_ALL, "limits": {"budget": {"daily": 5}}, "timezone": "Europe/Berlin"}
    async with a_gate(tmp_path, policy, sender([], cost=3), clock=clock) as gate:
        assert (await gate.call("mail.send")).ok
        clock.advance(next_midnight(moment, BERLIN) - moment - 0.001)
        assert code_of(await gate.call("mail.send")) == 1013
        clock.advance(0.001)
        assert (await gate.call("mail.send")).ok


@at_any_moment
async def test_rates_slide_over_midnight_and_over_a_change_of_the_clock(tmp_path: Path, moment: float) -> None:
    clock = HandClock(moment)
    policy = {**ALLOW_ALL, "limits": {"rate": {"per_minute": 1, "per_hour": 2}}, "timezone": "Europe/Berlin"}
    async with a_gate(tmp_path, policy, reader([]), clock=clock) as gate:
        codes = []
        for step_s in (0, 30, 31, 61, 3_600):
            clock.advance(step_s)
            codes.append(code_of(await gate.call("note.read")))
    assert codes == [None, 1012, None, 1012, None]


@at_any_moment
async def test_a_question_lasts_its_time_over_midnight_and_over_a_change_of_the_clock(
    tmp_path: Path, moment: float
) -> None:
    clock = HandClock(moment)
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=900) as gate:
        question = await pending(gate, "mail.send", {})
        clock.advance(900)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, code_of(outcome)) == (Status.EXPIRED, 1016)


@at_any_moment
async def test_the_record_is_found_by_its_moment(
    tmp_path: Path, moment: float, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, reader([]), clock=HandClock(moment)) as gate:
        await gate.call("note.read")

    def found(since: float) -> list[Any]:
        assert run(["audit", "--json", "--since", iso(since), "--db", str(tmp_path / "gate.db")]) == 0
        entries: list[Any] = json.loads(capsys.readouterr().out)["entries"]
        return entries

    assert len(found(moment)) == 1
    assert found(moment + 0.000_1) == []


WINDOW = {**ALLOW_ALL, "timezone": "Europe/Berlin", "windows": {"allowed": [{"hours": ["02:00", "03:00"]}]}}


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("2026-03-28T01:30Z", True),  # 02:30
        ("2026-03-29T00:59:59Z", False),  # 01:59:59, and the next second is 03:00
        ("2026-03-29T01:00Z", False),
        ("2026-10-25T00:30Z", True),  # 02:30 in summer time
        ("2026-10-25T01:30Z", True),  # 02:30 once more
        ("2026-10-25T02:00Z", False),
        ("2028-02-29T01:30Z", True),
    ],
)
async def test_a_window_goes_by_the_clock_on_the_wall_of_its_zone(tmp_path: Path, text: str, open_: bool) -> None:
    async with a_gate(tmp_path, WINDOW, reader([]), clock=HandClock(epoch(text))) as gate:
        assert code_of(await gate.call("note.read")) == (None if open_ else 1014)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata"])
def test_the_time_zone_of_the_machine_changes_nothing(tmp_path: Path, zone: str) -> None:
    """A day ahead, a day behind, half an hour off: a run, its record and its days are in UTC all the same."""
    (tmp_path / "policy.yaml").write_text("rules: [{pattern: '*', action: allow}]\nlimits: {budget: {daily: 5}}\n")
    (tmp_path / "plan.yaml").write_text(
        "version: '1.0'\nname: n\nsteps: [{tool: state.set, args: {path: /x, value: 1}}]\n"
    )

    def said(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "agent_gate", *words, "--json", "--db", "gate.db"],
            cwd=tmp_path,
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    said("run", "plan.yaml", "-p", "policy.yaml")
    (entry,) = said("audit", "--since", "2h")["entries"]
    moment = datetime.fromisoformat(entry["at"])
    # A file knows the time of the machine, whichever moment the tests are run at.
    now = (tmp_path / "plan.yaml").stat().st_mtime
    assert moment.utcoffset() == timedelta(0)
    assert abs(moment.timestamp() - now) < 3_600
