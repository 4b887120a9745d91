"""A wall clock that is set: questions keep their time, and the ledger tells of the jump."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate import Gate
from agent_gate.doors.cli.program import run
from agent_gate.gate.approvals import Approvals
from agent_gate.history.archive import open_archive
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.approval import Question
from agent_gate.model.outcome import Status
from tests.gates import (
    ALLOW_ALL,
    ASK_ALL,
    HandClock,
    People,
    a_gate,
    approve,
    entries,
    outcome_of,
    pending,
    reader,
    sender,
    soon,
)

YEAR_S = 365 * 86_400.0
JUMPS = [3_600.0, YEAR_S, -3_600.0, -YEAR_S]


async def asked(gate: Gate) -> Question:
    return await pending(gate, "mail.send", {})


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_a_question_lasts_as_long_as_it_was_given_however_the_wall_clock_is_set(
    tmp_path: Path, jump_s: float
) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate:
        first, second = await asked(gate), await asked(gate)
        clock.set(clock.now() + jump_s)
        clock.advance(59)
        approvals = Approvals(gate)
        assert len(await approvals.questions()) == 2
        with closing(open_reader(tmp_path / "gate.db")) as found:
            assert found.count_open_questions(clock) == 2
        await approve(gate, first)
        assert (await outcome_of(gate, first)).status is Status.SUCCESS
        clock.advance(1)
        assert (await outcome_of(gate, second)).status is Status.EXPIRED
        assert await approvals.questions() == []


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_after_a_restart_in_the_same_boot_the_question_still_has_its_time(tmp_path: Path, jump_s: float) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate:
        question = await asked(gate)
    clock.set(clock.now() + jump_s)
    clock.advance(30)
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate:
        assert [one.question.call_id for one in await Approvals(gate).questions()] == [question.call_id]
        clock.advance(30)
        assert await Approvals(gate).questions() == []


async def test_after_another_boot_only_the_wall_clock_is_left_to_go_by(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate:
        await asked(gate)
    after = HandClock(clock.now() + 59)
    after.boot = "another boot"
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=after) as gate:
        assert len(await Approvals(gate).questions()) == 1
        after.advance(1)
        assert await Approvals(gate).questions() == []


def told(gate: Gate) -> list[tuple[str, float]]:
    return [(entry["status"], entry["body"]["by_s"]) for entry in entries(gate, "clock")]


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_a_jump_is_one_entry_before_what_follows_and_a_small_correction_is_none(
    tmp_path: Path, jump_s: float
) -> None:
    clock = HandClock()
    async with (
        a_gate(tmp_path, ALLOW_ALL, reader([]), clock=clock) as gate,
        a_gate(tmp_path, ALLOW_ALL, reader([]), clock=clock) as other,
    ):
        clock.set(clock.now() + 1.5)
        await gate.call("note.read")
        assert told(gate) == []
        clock.set(clock.now() - 1.5 + jump_s)
        await gate.call("note.read")
        await other.call("note.read")
        await gate.call("note.read")
        assert told(gate) == [("ahead" if jump_s > 0 else "back", jump_s)]


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_a_jump_while_no_gate_was_open_is_told_by_the_next(tmp_path: Path, jump_s: float) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, clock=clock):
        pass
    clock.set(clock.now() + jump_s)
    for _ in range(2):
        async with a_gate(tmp_path, clock=clock) as gate:
            assert told(gate) == [("ahead" if jump_s > 0 else "back", jump_s)]


async def test_a_clock_behind_the_last_entry_is_told_after_another_boot(tmp_path: Path) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, clock=clock):
        pass
    after = HandClock(clock.now() - YEAR_S)
    after.boot = "another boot"
    async with a_gate(tmp_path, clock=after) as gate:
        assert told(gate) == [("back", -YEAR_S)]


async def test_who_waits_for_a_person_notices_a_jump_by_themselves(tmp_path: Path) -> None:
    clock, people = HandClock(), People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, people=people) as gate:
        call = asyncio.create_task(gate.call("mail.send"))
        question = await people.question()
        clock.set(clock.now() + YEAR_S)
        while not told(gate):  # noqa: ASYNC110 -- the next poll writes it
            await asyncio.sleep(0.01)
        await approve(gate, question)
        assert (await soon(call)).status is Status.SUCCESS


async def test_verify_audit_and_doctor_show_a_jump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, clock=clock) as gate:
        clock.set(clock.now() + 7_200)
        await gate.call("state.get", path="/x")
    db = tmp_path / "gate.db"
    report = verify(db)
    assert report.ok
    assert [(jump.direction, jump.by_s) for jump in report.clock_jumps] == [("ahead", 7_200.0)]
    (doctor,) = [row.found for row in open_archive(db).diagnose() if row.name == "clock"]
    assert doctor.startswith("set 1 time; at 2026-03-04T14")

    def said(*words: str) -> str:
        assert run([*words, "--db", str(db)]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "the clock was set ahead by 7,200 s" in said("verify")
    assert "the clock was set ahead by 7,200 s" in said("audit")
    assert json.loads(said("audit", "--json"))["clock_jumps"][0]["by_s"] == 7_200.0
    assert json.loads(said("verify", "--json"))["clock_jumps"][0]["direction"] == "ahead"
