"""A home behind the gate: what looking and acting cost there, how many changes are taken in, how fast lists are made.

The home is simulated in a process of its own, and speaks over a real socket.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, NamedTuple

import uvloop
from websockets.asyncio.client import ClientConnection, connect

from agent_gate import open_gate, tool
from agent_gate.config import HomeAssistantConfig
from agent_gate.gate.gate import Gate
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.codec import canonical
from agent_gate.model.outcome import Outcome
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.home import Area, Device, Entity, Home, RegistryEntry
from agent_gate.services.home_assistant.listing import Listing
from agent_gate.simulated_home import simulated_home
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_most, median_us, taking_turns_us
from bench.ledger import append_durations, template_draft

CALLS, WARM_UP = 2_000, 200
ENTITIES = 5_000
CHANGES_PER_S, CHANGES_S = 2_000, 30
PATIENCE_S = 60.0
LIGHT = "light.kitchen_lights"
POLICY = {"rules": [{"pattern": "*", "action": "allow"}]}
TOGGLE = {"domain": "light", "service": "toggle", "entity_id": LIGHT}


def figures(directory: Path) -> Iterator[Figure]:
    with _served() as home, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield from runner.run(_calls(directory, home))
        yield runner.run(_changes(home))
    yield from _lists()


class _Served(NamedTuple):
    url: str
    token: str


@contextmanager
def _served() -> Iterator[_Served]:
    """A home in a process of its own."""
    command = [sys.executable, "-m", "bench.home_assistant"]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=Path(__file__).parent.parent) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield _Served(*json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()


async def _calls(directory: Path, home: _Served) -> list[Figure]:
    """One of each kind in turn, so that noise from outside meets all of them; the first ones warm up."""
    template = await template_draft(directory / "home-template.db")
    settings = HomeAssistantConfig(home.url, home.token)
    async with (
        _bare(home) as bare,
        open_gate(POLICY, directory / "home.db", tools=[_nothing], services=(), home_assistant=settings) as gate,
    ):
        _ANSWER.update((await gate.call("ha_get_entity_state", entity_id=LIGHT)).data)
        ledger = SqliteLedger(directory / "home-appends.db", SystemClock(), RandomIds())
        kinds: dict[str, Callable[[], Awaitable[list[float]]]] = {
            "append": lambda: append_durations(ledger, template, 1),
            "nothing": lambda: _duration(gate, "clock.nothing", {"entity_id": LIGHT}),
            "look": lambda: _duration(gate, "ha_get_entity_state", {"entity_id": LIGHT}),
            "bare": bare.duration,
            "act": lambda: _duration(gate, "ha_call_service", TOGGLE),
        }
        durations: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(WARM_UP + CALLS):
            for name, call in kinds.items():
                durations[name] += await call()
        await ledger.close()
    a, nothing, look, bare_us, act = (median_us(found[WARM_UP:]) for found in durations.values())
    return [
        at_most("a cached read of a home", look, nothing, "a tool that only returns the same bytes", "µs", 1.3),
        at_most(
            "ha_call_service, what the gate adds",
            act - bare_us,
            a,
            f"A; the WebSocket call alone takes {bare_us:.0f} µs",
            "µs",
            4,
        ),
    ]


_ANSWER: dict[str, Any] = {}


@tool("clock.nothing", effect="read", cost=0, risk="low")
async def _nothing(entity_id: str) -> dict[str, Any]:
    """Does nothing, so that only the gate is measured."""
    return _ANSWER


async def _duration(gate: Gate, name: str, args: Mapping[str, Any]) -> list[float]:
    start = time.perf_counter()
    outcome: Outcome = await gate.call(name, args)
    took_s = time.perf_counter() - start
    assert outcome.ok, outcome
    return [took_s]


class _Bare:
    """What a script would do that calls services without a gate."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._id = connection, 0

    async def duration(self) -> list[float]:
        self._id += 1
        call = {"domain": "light", "service": "toggle", "target": {"entity_id": LIGHT}}
        start = time.perf_counter()
        await self._connection.send(json.dumps({"id": self._id, "type": "call_service", **call}))
        answer = json.loads(await self._connection.recv())
        took_s = time.perf_counter() - start
        assert answer["success"], answer
        return [took_s]


@asynccontextmanager
async def _bare(home: _Served) -> AsyncIterator[_Bare]:
    url = f"{home.url.replace('http', 'ws', 1)}/api/websocket"
    async with connect(url, proxy=None, compression=None) as connection:
        await connection.recv()
        await connection.send(json.dumps({"type": "auth", "access_token": home.token}))
        assert json.loads(await connection.recv())["type"] == "auth_ok"
        yield _Bare(connection)


async def _changes(home: _Served) -> Figure:
    """How far behind the copy of the home is, at the worst, while it changes and changes."""
    count = CHANGES_PER_S * CHANGES_S
    behind: list[float] = []
    seen = asyncio.Event()

    def changed(event: Mapping[str, Any]) -> None:
        behind.append(time.time() - datetime.fromisoformat(event["data"]["new_state"]["last_updated"]).timestamp())
        if len(behind) == count:
            seen.set()

    client = HomeClient(HomeAssistantConfig(home.url), home.token, SystemClock())
    await client.start()
    client.listen("state_changed", changed)
    data = {"count": count, "per_second": CHANGES_PER_S, "entities": 500}
    limit_s = CHANGES_S + PATIENCE_S
    start = time.perf_counter()
    await asyncio.gather(
        client.call_service("burst", "run", target=None, data=data, wants_response=False, timeout_s=limit_s),
        asyncio.wait_for(seen.wait(), limit_s),
    )
    rate = count / (time.perf_counter() - start)
    assert client.home.is_live
    await client.close()
    name = f"{CHANGES_PER_S:,} changes a second, {CHANGES_S} s: furthest behind"
    figure = at_most(name, max(behind), 1, f"one second; {rate:,.0f} came a second", "s", 1)
    return replace(figure, met=figure.met and rate > 0.95 * CHANGES_PER_S)


def _lists() -> Iterator[Figure]:
    listing = Listing(_large_home())
    for name, args in (
        (f"listing {ENTITIES:,} entities", {}),
        (f"filtering {ENTITIES:,} entities by domain and area", {"domain": "light", "area": "Area 4"}),
    ):
        answer = listing.entities(args)
        values = [tuple(row.values()) for row in answer["entities"]]
        keys = tuple(answer["entities"][0])

        def ours(args: Mapping[str, Any] = args) -> bytes:
            return canonical(listing.entities(args))

        def same(
            values: list[tuple[Any, ...]] = values, keys: tuple[str, ...] = keys, answer: Mapping[str, Any] = answer
        ) -> bytes:
            a, b, c, d, e, f = keys
            rows = [{a: u, b: v, c: w, d: x, e: y, f: z} for u, v, w, x, y, z in values]
            return canonical({**answer, "entities": rows})

        assert ours() == same()
        measured, built = taking_turns_us(3, ours, same)
        yield at_most(name, measured, built, f"building and encoding the same {len(values):,} rows", "µs", 3)


def _large_home() -> Home:
    home, domains = Home(SystemClock()), ("light", "sensor", "switch", "binary_sensor")
    at, areas = "2026-03-04T12:00:00.123456+00:00", 20
    ids = [f"{domains[number % 4]}.thing_{number:05}" for number in range(ENTITIES)]
    for number, entity_id in enumerate(ids):
        home.put(Entity(entity_id, "on", {"friendly_name": f"Thing {number}", "supported_features": 44}, at, at))
    home.learn(
        areas=[Area(f"area_{number}", f"Area {number}") for number in range(areas)],
        devices=[Device(f"device_{number}", area_id=f"area_{number}") for number in range(areas)],
        registry=[
            RegistryEntry(entity_id, f"area_{number % areas}" if number % 2 else None, f"device_{number % areas}")
            for number, entity_id in enumerate(ids)
        ],
    )
    home.in_step(live=True)
    return home


async def _serve() -> None:
    async with simulated_home() as running:
        print(json.dumps([running.url, running.token]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve())
