"""Alarms: one timer for all acts, and each act ends at its own limit."""

from __future__ import annotations

import asyncio

import pytest

from agent_gate.pipeline.alarms import Alarms
from tests.gates import soon


async def act(alarms: Alarms, call_id: str, seconds: float, until: asyncio.Event | None = None) -> bool:
    """Whether the alarm rang; the task is whole again afterwards."""
    task = asyncio.current_task()
    assert task is not None
    alarm = alarms.set(call_id, seconds)
    try:
        await (until or asyncio.Event()).wait()
    except asyncio.CancelledError:
        assert alarm.rang
    finally:
        alarms.stop(alarm)
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    return alarm.rang


async def test_an_act_ends_when_its_time_is_over_and_others_go_on() -> None:
    alarms, done = Alarms(), asyncio.Event()
    patient = asyncio.create_task(act(alarms, "patient", 60, done))
    assert await soon(asyncio.gather(*(act(alarms, "short", seconds) for seconds in (0.03, 0.01, 0.02)))) == [True] * 3
    assert not patient.done()
    done.set()
    assert await soon(patient) is False


async def test_an_earlier_limit_that_is_set_later_is_kept_to() -> None:
    alarms, done = Alarms(), asyncio.Event()
    late = asyncio.create_task(act(alarms, "late", 60, done))
    await asyncio.sleep(0)
    assert await soon(act(alarms, "early", 0.01)) is True
    done.set()
    assert await soon(late) is False


async def test_a_limit_that_is_over_already_ends_the_act_at_once() -> None:
    assert await soon(act(Alarms(), "c", -1)) is True


async def test_limits_that_follow_one_another_are_all_kept_to() -> None:
    alarms = Alarms()
    acts = [act(alarms, str(number), number / 500) for number in range(20)]
    assert await soon(asyncio.gather(*acts)) == [True] * 20


async def test_an_act_is_rung_before_its_time_and_only_that_one() -> None:
    alarms, done = Alarms(), asyncio.Event()
    one, other = (asyncio.create_task(act(alarms, name, 60, done)) for name in ("one", "other"))
    await asyncio.sleep(0)
    alarms.ring("one")
    assert await soon(one) is True
    done.set()
    assert await soon(other) is False


async def test_an_act_that_ends_in_the_same_turn_is_not_rung() -> None:
    alarms, done = Alarms(), asyncio.Event()
    task = asyncio.create_task(act(alarms, "c", 60, done))
    await asyncio.sleep(0)
    done.set()
    alarms.ring("c")
    assert await soon(task) is False


def test_acts_of_one_event_loop_after_another_are_looked_after() -> None:
    alarms = Alarms()
    done = asyncio.Event()
    done.set()
    for _ in range(2):
        assert asyncio.run(act(alarms, "c", 0.05, done)) is False
        assert asyncio.run(act(alarms, "c", 0.06)) is True


async def test_a_task_that_somebody_else_cancels_stays_cancelled() -> None:
    alarms = Alarms()

    async def acting() -> None:
        alarm = alarms.set("c", 60)
        try:
            await asyncio.Event().wait()
        finally:
            alarms.stop(alarm)

    task = asyncio.create_task(acting())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
