"""Questions at odd moments: taken off the table, answered with more than a yes, under a clock that is set."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.model.approval import Answer, GrantTerms, Question
from agent_gate.model.outcome import Status
from agent_gate.pipeline.hold import Resolution
from tests.gates import (
    ANNA,
    ASK_ALL,
    HandClock,
    People,
    a_gate,
    approve,
    code_of,
    deny,
    entries,
    outcome_of,
    pending,
    sender,
    soon,
)

YEAR_S = 365 * 86_400.0


def off_the_table(directory: Path, question: Question) -> None:
    """As whoever ended the call does, in whichever process."""
    with closing(sqlite3.connect(directory / "gate.db", isolation_level=None)) as connection:
        assert connection.execute("DELETE FROM pending_requests WHERE call_id = ?", (question.call_id,)).rowcount == 1


async def answered(gate: Gate, question: Question, how: str) -> None:
    if how == "withdrawn":
        await gate.stages.holder.withdraw(question)
    elif how == "expired":
        await gate.stages.holder.expire(question)
    else:
        await (approve if how == "approved" else deny)(gate, question)


@pytest.mark.parametrize(
    ("how", "by"), [("approved", "anna"), ("denied", "anna"), ("withdrawn", "default"), ("expired", "")]
)
async def test_a_question_that_is_off_the_table_ended_as_its_last_answer_says(
    tmp_path: Path, how: str, by: str
) -> None:
    clock = HandClock()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as gate:
        question = await pending(gate, "mail.send", {})
        holder = gate.stages.holder
        clock.advance(5)
        await answered(gate, question, how)
        at = clock.now()
        clock.advance(7)
        off_the_table(tmp_path, question)
        found = await holder._resolution(question)
        assert found is not None
        assert (found.how, found.at) == (how, at)
        assert found.by == (question.agent_id if how == "withdrawn" else by)


async def test_a_question_that_is_gone_without_any_answer_is_over_and_nothing_is_done(tmp_path: Path) -> None:
    """Its waiter sleeps meanwhile, and must not wait for ever or take silence for a yes."""
    acts: list[str] = []
    clock, people = HandClock(), People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), clock=clock, people=people) as gate:
        call = asyncio.create_task(gate.call("mail.send"))
        question = await people.question()
        off_the_table(tmp_path, question)
        assert await gate.stages.holder._resolution(question) == Resolution("expired", "", clock.now())
        clock.advance(3_600)
        outcome = await soon(call)
    assert (outcome.status, acts) == (Status.EXPIRED, [])


@pytest.mark.parametrize("waits", [True, False], ids=["while somebody waits", "while nobody waits"])
async def test_a_wall_clock_that_is_set_forward_neither_ends_a_question_nor_refuses_its_answer(
    tmp_path: Path, waits: bool
) -> None:
    clock, people = HandClock(), People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, people=people, approval_timeout_s=60) as gate:
        call = asyncio.create_task(gate.call("mail.send", wait=waits))
        question = await people.question() if waits else (await pending(gate, "mail.send", {"text": "x"}))
        holder = gate.stages.holder
        clock.set(clock.now() + YEAR_S)
        clock.advance(59.5)
        assert not holder._is_over(question)
        assert await holder._resolution(question) is None
        refused = await holder.answer(Answer(question.call_id, question.nonce, True, ANNA, clock.now()))
        assert refused is None
        assert (await outcome_of(gate, question)).status is Status.SUCCESS
        await soon(call)


async def test_an_answer_by_another_process_counts_though_the_wall_clock_was_set_forward(tmp_path: Path) -> None:
    """That process has put no question of its own: it goes by the end that the question itself names."""
    clock = HandClock()
    async with (
        a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate,
        a_gate(tmp_path, ASK_ALL, sender([]), clock=clock) as other,
    ):
        question, late = await pending(gate, "mail.send", {}), await pending(gate, "mail.send", {"text": "late"})
        clock.set(clock.now() + YEAR_S)
        clock.advance(59.5)
        answer = Answer(question.call_id, question.nonce, True, ANNA, clock.now())
        assert await other.stages.holder.answer(answer) is None
        assert (await outcome_of(gate, question)).status is Status.SUCCESS
        clock.advance(0.5)
        refused = await other.stages.holder.answer(Answer(late.call_id, late.nonce, True, ANNA, clock.now()))
        assert refused is not None


@pytest.mark.parametrize("waits", [True, False], ids=["while somebody waits", "while nobody waits"])
async def test_a_wall_clock_that_is_set_back_gives_a_question_no_more_time(tmp_path: Path, waits: bool) -> None:
    clock, people = HandClock(), People()
    async with a_gate(tmp_path, ASK_ALL, sender([]), clock=clock, people=people, approval_timeout_s=60) as gate:
        call = asyncio.create_task(gate.call("mail.send", wait=waits))
        question = await people.question() if waits else (await pending(gate, "mail.send", {"text": "x"}))
        clock.set(clock.now() - YEAR_S)
        clock.advance(60)
        assert gate.stages.holder._is_over(question)
        refused = await gate.stages.holder.answer(Answer(question.call_id, question.nonce, True, ANNA, clock.now()))
        assert refused is not None
        assert (await outcome_of(gate, question)).status is Status.EXPIRED
        await soon(call)


@pytest.mark.parametrize("terms", [GrantTerms(), GrantTerms(seconds=-1, uses=0)], ids=["sound", "out of bounds"])
async def test_a_denial_that_carries_a_grant_denies_and_grants_nothing(tmp_path: Path, terms: GrantTerms) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ASK_ALL, sender(acts)) as gate:
        question = await pending(gate, "mail.send", {})
        answer = Answer(question.call_id, question.nonce, False, ANNA, gate.clock.now(), grant=terms)
        assert await gate.stages.holder.answer(answer) is None
        outcome = await outcome_of(gate, question)
        assert (outcome.status, code_of(outcome), acts) == (Status.DENIED, 1015, [])
        assert granted(gate) == []
        again = await gate.call("mail.send", wait=False)
    assert (again.status is Status.SUCCESS, acts) == (False, [])


def granted(gate: Gate) -> list[Any]:
    with closing(sqlite3.connect(gate.ledger.files.db)) as connection:  # type: ignore[attr-defined]  # SQLite here
        return [*connection.execute("SELECT * FROM grants").fetchall(), *entries(gate, "granted")]
