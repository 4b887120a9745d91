"""Places for chains: who waits for one, for how long, and who is turned away."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from agent_gate.doors.policy_agent.methods import Busy
from agent_gate.doors.policy_agent.running import Running
from tests.gates import PATIENCE_S, soon

WAIT_S = 2 * PATIENCE_S


class Waiting:
    """A task that wants a place, and keeps it until it is told to go."""

    def __init__(self, running: Running, deadline_s: float | None = None) -> None:
        self.inside, self._go = asyncio.Event(), asyncio.Event()
        self.task = asyncio.ensure_future(self._run(running, deadline_s))

    async def _run(self, running: Running, deadline_s: float | None) -> float | None:
        async with running.one(deadline_s) as left_s:
            self.inside.set()
            await self._go.wait()
            return left_s

    async def leave(self) -> float | None:
        self._go.set()
        return await soon(self.task)


async def turns() -> None:
    """Enough for every task to get as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_waits_comes_in_when_a_place_becomes_free_first_come_first_served() -> None:
    running = Running(2, WAIT_S)
    callers = [Waiting(running) for _ in range(4)]
    await turns()
    assert [caller.inside.is_set() for caller in callers] == [True, True, False, False]
    await callers[1].leave()
    await turns()
    assert [caller.inside.is_set() for caller in callers] == [True, True, True, False]
    for caller in (callers[0], callers[2], callers[3]):
        await caller.leave()
    async with running.one(), running.one():
        """All places are free again."""


async def test_as_many_wait_as_may_run_and_the_next_is_turned_away_at_once() -> None:
    running = Running(1, WAIT_S)
    first, second = Waiting(running), Waiting(running)
    await turns()
    with pytest.raises(Busy, match="max_concurrent_requests"):
        async with running.one():
            pytest.fail("one too many")
    await first.leave()
    await second.leave()


async def test_who_has_waited_in_vain_is_turned_away_and_takes_no_place() -> None:
    running = Running(1, 0.0)
    first = Waiting(running)
    await turns()
    with pytest.raises(Busy):
        async with running.one():
            pytest.fail("nothing was free")
    await first.leave()
    async with running.one():
        """It is free again."""


async def test_a_wait_is_no_longer_than_the_deadline_and_is_taken_off_it() -> None:
    running = Running(1, WAIT_S)
    first = Waiting(running)
    await turns()
    with pytest.raises(Busy):
        async with running.one(0.0):
            pytest.fail("its time was up")
    second = Waiting(running, 100.0)
    await turns()
    assert await first.leave() is None
    left_s = await second.leave()
    assert left_s is not None
    assert left_s < 100.0


async def test_who_goes_away_while_waiting_leaves_the_place_to_the_next() -> None:
    """Also in the very moment in which it would have come in."""
    running = Running(2, WAIT_S)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running.one())
        first = Waiting(running)
        second, third = Waiting(running), Waiting(running)
        await turns()
        first._go.set()
        await asyncio.sleep(0)
        second.task.cancel()
        await soon(third.inside.wait())
        await third.leave()
        fourth, fifth = Waiting(running), Waiting(running)
        await soon(fourth.inside.wait())
        fifth.task.cancel()
        await turns()
        await fourth.leave()
    async with running.one(), running.one():
        """All places are free again."""
