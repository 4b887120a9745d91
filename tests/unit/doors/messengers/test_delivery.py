"""The queue before a messenger: bounded, patient, and the newest state wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_gate.doors.messengers.backoff import Backoff
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.delivery import Delivery
from agent_gate.doors.messengers.telegram.faults import Flooded, Refused, Unreachable
from tests.chats import Pauses
from tests.gates import until


class Telegram:
    """Fails as told, then notes what it was given."""

    def __init__(self, *faults: Exception) -> None:
        self.faults, self.done = list(faults), list[str]()
        self.gate = asyncio.Event()
        self.gate.set()

    async def refresh(self, call_id: str) -> None:
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.done.append(call_id)


@asynccontextmanager
async def running(telegram: Telegram, pauses: Pauses) -> AsyncIterator[Delivery]:
    delivery = Delivery(pauses)
    task = asyncio.create_task(delivery.run(telegram.refresh))
    try:
        yield delivery
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_added_twice_while_it_waits_is_brought_up_to_date_once() -> None:
    telegram = Telegram()
    telegram.gate.clear()
    async with running(telegram, Pauses()) as delivery:
        for call_id in ("a", "b", "c", "b", "c"):
            delivery.add(call_id)
        telegram.gate.set()
        await until(lambda: delivery.is_empty and "c" in telegram.done)
    assert telegram.done == ["a", "b", "c"]


async def test_a_flood_limit_is_waited_out_to_the_second_and_nothing_is_lost() -> None:
    telegram, pauses = Telegram(Flooded(17), Flooded(4)), Pauses()
    async with running(telegram, pauses) as delivery:
        delivery.add("a")
        delivery.add("b")
        await until(lambda: len(telegram.done) == 2)
    assert pauses.taken_s == [17, 4]
    assert delivery.trouble == ""


async def test_trouble_is_told_until_it_is_over() -> None:
    telegram, pauses = Telegram(Refused("chat not found"), Unreachable("gone"), Unreachable("gone")), Pauses()
    async with running(telegram, pauses) as delivery:
        delivery.add("a")
        await until(lambda: delivery.trouble == "gone")
        await until(lambda: telegram.done)
    assert delivery.trouble == ""
    assert len(pauses.taken_s) == 3


async def test_a_message_that_cannot_be_made_does_not_keep_others_waiting() -> None:
    telegram, pauses = Telegram(ValueError("a bug")), Pauses()
    async with running(telegram, pauses) as delivery:
        delivery.add("a")
        delivery.add("b")
        await until(lambda: telegram.done)
    assert telegram.done == ["b"]
    assert pauses.taken_s == []
    assert delivery.left_out


async def test_the_queue_is_bounded_and_says_when_something_was_left_out() -> None:
    delivery = Delivery(Pauses(), MessengerBounds(waiting_max=2))
    for call_id in ("a", "b", "a", "b"):
        delivery.add(call_id)
    assert not delivery.left_out
    delivery.add("c")
    assert delivery.left_out


async def test_settling_lets_what_is_on_its_way_arrive_and_starts_nothing_more() -> None:
    telegram = Telegram()
    telegram.gate.clear()
    async with running(telegram, Pauses()) as delivery:
        delivery.add("a")
        delivery.add("b")
        await until(lambda: not delivery.is_empty)
        await asyncio.sleep(0)
        settling = asyncio.create_task(delivery.settle())
        await asyncio.sleep(0)
        telegram.gate.set()
        await settling
    assert telegram.done == ["a"]


def test_waits_grow_to_a_bound_differ_and_begin_anew() -> None:
    backoff = Backoff()
    waits_s = [backoff.next_s() for _ in range(40)]
    assert all(0.25 * 2 ** min(n, 6) <= wait_s <= min(30, 0.5 * 2**n) for n, wait_s in enumerate(waits_s[:6]))
    assert all(15 <= wait_s <= 30 for wait_s in waits_s[7:])
    assert len(set(waits_s[7:])) > 1
    backoff.reset()
    assert backoff.next_s() <= 0.5
