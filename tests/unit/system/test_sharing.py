"""Places that all agents share: nobody can take all of them, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import PLACES_WAITED_FOR_MAX
from agent_gate.model.errors import ToolError
from agent_gate.system.sharing import ON_BEHALF_OF, Places
from tests.gates import soon


async def take(places: Places, agent: str) -> str:
    ON_BEHALF_OF.set(agent)
    return await places.take()


async def taken(places: Places, agent: str, wanted: int) -> int:
    """How many of so many an agent gets at once."""
    found = await asyncio.gather(*(take(places, agent) for _ in range(wanted)), return_exceptions=True)
    assert all(isinstance(each, str | ToolError) for each in found)
    return sum(isinstance(each, str) for each in found)


@pytest.mark.parametrize(
    ("most", "shares"), [(16, [8, 4, 2, 1, 1, 0]), (8, [4, 2, 1, 1, 0]), (5, [3, 1, 1, 0]), (2, [1, 1, 0]), (1, [1, 0])]
)
async def test_each_agent_gets_half_of_what_the_others_leave(most: int, shares: list[int]) -> None:
    places = Places(most, "things run", wait_s=0)
    assert [await taken(places, f"agent{number}", 2 * most) for number in range(len(shares))] == shares


async def test_the_gates_own_work_takes_what_is_free() -> None:
    places = Places(4, "things run", wait_s=0)
    assert [await taken(places, agent, 9) for agent in ("one", "", "two")] == [2, 2, 0]


async def test_the_refusal_has_a_code_and_says_what_there_is_too_much_of() -> None:
    places = Places(1, "commands run", wait_s=0)
    await take(places, "one")
    with pytest.raises(ToolError, match="too many commands run already") as refused:
        await take(places, "one")
    assert refused.value.code == 2006


async def test_a_free_place_goes_to_the_agent_that_holds_the_fewest() -> None:
    places, order = Places(4, "things run", wait_s=600), list[str]()

    async def wait_for_one(agent: str) -> None:
        await take(places, agent)
        order.append(agent)

    for agent in ("one", "one", "two", "three"):
        await take(places, agent)
    waiting = [asyncio.create_task(wait_for_one(agent)) for agent in ("one", "one", "two", "four")]
    await asyncio.sleep(0)
    for holder, expected in (("three", ["four"]), ("one", ["four"]), ("one", ["four", "one"])):
        places.give_back(holder)
        for _ in range(4):
            await asyncio.sleep(0)
        assert order == expected, "the last place is kept for somebody who comes"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_agent_may_not_wait_for_more_places_than_the_bound() -> None:
    places = Places(2, "things run", wait_s=600)
    await take(places, "one")
    waiting = [asyncio.create_task(take(places, "one")) for _ in range(PLACES_WAITED_FOR_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(ToolError):
        await take(places, "one")
    assert await soon(take(places, "two")) == "two"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "give back", "give up", "turn"]), st.sampled_from(["a", "b", "c", ""])),
    max_size=40,
)


@given(st.integers(1, 6), STEPS)
def test_whatever_comes_and_goes_no_place_is_lost_or_lent_twice(most: int, steps: list[tuple[str, str]]) -> None:
    asyncio.run(_come_and_go(most, steps))


async def _come_and_go(most: int, steps: list[tuple[str, str]]) -> None:
    places, held, waiting = Places(most, "things run", wait_s=600), Counter[str](), list[asyncio.Task[str]]()

    def collect() -> None:
        for task in [task for task in waiting if task.done()]:
            waiting.remove(task)
            if not task.cancelled():
                held[task.result()] += 1
        assert held.total() <= most

    for what, agent in steps:
        if what == "take":
            waiting.append(asyncio.create_task(take(places, agent)))
        elif what == "give back" and held[agent]:
            held[agent] -= 1
            places.give_back(agent)
        elif what == "give up" and waiting:
            waiting[len(agent) % len(waiting)].cancel()
        if what == "turn":
            for _ in range(4):
                await asyncio.sleep(0)
            collect()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    collect()
    for agent in list(held.elements()):
        places.give_back(agent)
    with suppress(ToolError):
        assert await taken(places, "", most) == most
