"""Guessing tokens is slowed down for each address, at every door alike, and nobody else is kept out by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from agent_gate.doors.throttle import Throttle
from agent_gate.model.bounds import GUESSES_BESIDE_KNOWN_PER_MINUTE, GUESSES_PER_MINUTE, KNOWN_TOKENS_S
from tests.gates import ALLOW_ALL, PATIENCE_S, HandClock, entries, until
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CLERK_TOKEN, Served, a_raw_agent, a_server

PLACES = ("/api/v1/tools", "/api/v1/calls/x", "/api/nowhere", "/readyz", "/metrics")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def served(tmp_path: Path, clock: HandClock) -> AsyncIterator[Served]:
    async with a_server(tmp_path, ALLOW_ALL, clock=clock) as served:
        yield served


async def _get(served: Served, token: str | None, path: str = "/api/v1/tools") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=PATIENCE_S) as client:
        return await client.get(path)


async def _say(served: Served, token: str) -> tuple[int, int | None]:
    """The code of the refusal over the WebSocket, and that of the closing; 0 where it is let in."""
    async with a_raw_agent(served, None) as agent:
        answer = await agent.ask("auth", token=token)
        if "status" in answer:
            return 0, None
        return answer["code"], await agent.closed()


@pytest.mark.parametrize("path", PLACES)
async def test_guesses_over_http_are_refused_unread_after_ten(served: Served, clock: HandClock, path: str) -> None:
    for number in range(GUESSES_PER_MINUTE):
        assert (await _get(served, f"guess-{number}", path)).status_code == 401
    slowed = await _get(served, BOT_TOKEN, path)
    assert (slowed.status_code, slowed.headers["retry-after"]) == (429, "7")
    assert slowed.json()["error"]["code"] == 1012
    clock.advance(6.1)
    assert (await _get(served, BOT_TOKEN)).status_code == 200


async def test_guesses_over_the_websocket_are_refused_unread_after_ten(served: Served, clock: HandClock) -> None:
    for number in range(GUESSES_PER_MINUTE):
        assert await _say(served, f"guess-{number}") == (-32005, 1008)
    assert await _say(served, BOT_TOKEN) == (-32006, 1013)
    clock.advance(6.1)
    assert await _say(served, BOT_TOKEN) == (0, None)


async def test_the_doors_count_together(served: Served) -> None:
    for number in range(GUESSES_PER_MINUTE // 2):
        assert (await _get(served, f"guess-{number}")).status_code == 401
        assert await _say(served, f"guess-{number}") == (-32005, 1008)
    assert (await _get(served, ANNA_TOKEN)).status_code == 429
    assert await _say(served, BOT_TOKEN) == (-32006, 1013)
    async with httpx2.AsyncClient(base_url=served.url) as browser:
        answer = await browser.post("/console/sign-in", data={"token": ANNA_TOKEN})
    assert answer.status_code == 429


async def test_who_was_right_from_there_lately_is_not_kept_out(served: Served) -> None:
    assert (await _get(served, BOT_TOKEN)).status_code == 200
    for number in range(3 * GUESSES_PER_MINUTE):
        await _get(served, f"guess-{number}")
    assert (await _get(served, BOT_TOKEN)).status_code == 200
    assert await _say(served, BOT_TOKEN) == (0, None)
    assert (await _get(served, CLERK_TOKEN)).status_code == 429


async def test_what_carries_no_token_is_no_guess(served: Served) -> None:
    for _ in range(3 * GUESSES_PER_MINUTE):
        assert (await _get(served, None)).status_code == 401
    assert (await _get(served, BOT_TOKEN)).status_code == 200


async def test_guesses_that_are_not_read_are_counted_for_the_record(served: Served) -> None:
    for number in range(GUESSES_PER_MINUTE + 3):
        await _get(served, f"guess-{number}")

    def counted() -> dict[str, int]:
        lines = [line for entry in entries(served.gate, "door") for line in entry["body"]["refused"]]
        return {
            why: sum(line["count"] for line in lines if line["why"] == why) for why in {one["why"] for one in lines}
        }

    await until(lambda: counted() == {"not_authenticated": GUESSES_PER_MINUTE, "rate_exceeded": 3})


def test_a_flood_of_guesses_learns_nothing_of_the_tokens_that_are_in_use(clock: HandClock) -> None:
    slowed = Throttle(clock.monotonic)
    slowed.succeeded("192.0.2.1", "right")
    for _ in range(GUESSES_PER_MINUTE):
        slowed.failed("192.0.2.1")
    for number in range(GUESSES_BESIDE_KNOWN_PER_MINUTE):
        assert slowed.wait_s("192.0.2.1", f"guess-{number}") > 0
    assert 0 < slowed.wait_s("192.0.2.1", "right") <= 60 / GUESSES_PER_MINUTE
    clock.advance(1)
    assert slowed.wait_s("192.0.2.1", "right") == 0


def test_a_right_token_stands_out_at_its_own_address_and_for_a_while(clock: HandClock) -> None:
    slowed = Throttle(clock.monotonic)
    slowed.succeeded("192.0.2.1", "right")
    for address in ("192.0.2.1", "192.0.2.2"):
        for _ in range(GUESSES_PER_MINUTE):
            slowed.failed(address)
    assert slowed.wait_s("192.0.2.1", "right") == 0
    assert slowed.wait_s("192.0.2.2", "right") > 0
    assert slowed.wait_s("192.0.2.3", "any") == 0
    clock.advance(KNOWN_TOKENS_S)
    for _ in range(GUESSES_PER_MINUTE):
        slowed.failed("192.0.2.1")
    assert slowed.wait_s("192.0.2.1", "right") > 0


def test_what_is_remembered_is_bounded(clock: HandClock) -> None:
    slowed = Throttle(clock.monotonic, known_max=3, addresses_max=3)
    for number in range(100):
        slowed.succeeded(f"192.0.2.{number}", f"right-{number}")
        slowed.failed(f"192.0.2.{number}")
    assert len(slowed._known) == len(slowed._failures._due) == 3
