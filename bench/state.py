"""The state at speed: reading and changing one project's state, beside calls of a tool that only reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

from agent_gate import open_gate, tool
from agent_gate.model.outcome import Outcome
from bench.figure import Figure, at_least

CALLERS, CALLS, ROUNDS = 64, 40, 9
ROOMS = 16
POLICY = {"rules": [{"pattern": name, "action": "allow"} for name in ("clock.*", "state.*")]}

Call = Callable[[int], Awaitable[Outcome]]


@tool("clock.read", effect="read", cost=0, risk="low")
async def read(place: str) -> dict[str, object]:
    """A tool that does nothing, so that only the gate is measured."""
    return {"place": place, "reading": 21}


def figures(directory: Path) -> Iterator[Figure]:
    reads, gets, sets = asyncio.run(_measured(directory))
    told = f"read-only calls, {CALLERS} callers"
    yield at_least(f"state.get, {CALLERS} callers", gets, reads, told, "1/s", 0.8)
    yield at_least(f"state.set, {CALLERS} callers", sets, reads, told, "1/s", 0.4)


async def _measured(directory: Path) -> list[float]:
    """Short rounds of each kind take turns, so that noise from outside meets all of them."""
    async with open_gate(POLICY, directory / "state.db", tools=[read], services=()) as gate:
        numbers = count()
        kinds: list[Call] = [
            lambda _: gate.call("clock.read", {"place": "kitchen"}),
            lambda caller: gate.call("state.get", {"path": f"/rooms/{caller % ROOMS}"}),
            lambda caller: gate.call("state.set", {"path": f"/rooms/{caller % ROOMS}", "value": next(numbers)}),
        ]
        for room in range(ROOMS):
            await kinds[2](room)
        rates: list[list[float]] = [[] for _ in kinds]
        for number in range(ROUNDS + 1):
            for kind, found in zip(kinds, rates, strict=True):
                rate = await _rate(kind)
                if number:  # the first round warms up the files
                    found.append(rate)
    return [sorted(found)[ROUNDS // 2] for found in rates]


async def _rate(call: Call) -> float:
    async def caller(number: int) -> None:
        for _ in range(CALLS):
            outcome = await call(number)
            assert outcome.ok, outcome

    start = time.perf_counter()
    await asyncio.gather(*map(caller, range(CALLERS)))
    return CALLERS * CALLS / (time.perf_counter() - start)
