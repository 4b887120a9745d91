"""A name is looked up once, every answer counts, and a resolver that hangs holds nobody up."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from agent_gate.model.bounds import LOOKUPS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.resolve.names import SystemResolver, addresses_of
from agent_gate.system.sharing import ON_BEHALF_OF
from tests.web import Web

pytestmark = pytest.mark.anyio


def web(*answers: list[str]) -> Web:
    made = Web()
    made.names["a.test"] = list(answers)
    return made


async def test_every_answer_counts_once_in_its_one_spelling_and_in_order() -> None:
    answers = ["2606:4700:0::1", "9.9.9.9", "2606:4700::1", "::ffff:1.2.3.4", "1.1.1.1", "9.9.9.9"]
    assert await addresses_of("a.test", web(answers)) == ["1.1.1.1", "9.9.9.9", "::ffff:102:304", "2606:4700::1"]


@pytest.mark.parametrize(
    ("answers", "code", "detail"),
    [
        ([], 2006, "`a.test` has no address"),
        (["1.1.1.1", "fe80::1%eth0"], 2003, "`a.test` was answered by 'fe80::1%eth0', which is not an address"),
        ([f"9.9.{n}.9" for n in range(65)], 2003, "`a.test` has more than 64 addresses"),
    ],
)
async def test_answers_that_cannot_all_be_judged_are_an_error(answers: list[str], code: int, detail: str) -> None:
    with pytest.raises(ToolError) as raised:
        await addresses_of("a.test", web(answers))
    assert (raised.value.code, raised.value.problem.detail) == (code, detail)


async def test_a_name_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ToolError, match=r"`b\.test` was not found: no such name: b\.test"):
        await addresses_of("b.test", web())


async def test_a_look_up_that_hangs_is_an_error_in_time() -> None:
    hanging = web()
    hanging.hanging.add("a.test")
    with pytest.raises(ToolError, match=r"`a\.test` was not found within 0\.01 s") as raised:
        await addresses_of("a.test", hanging, 0.01)
    assert raised.value.code == 2006


@pytest.fixture
def system() -> Iterator[dict[str, Any]]:
    """The machine's resolver, in the hands of the test."""
    hands: dict[str, Any] = {"asked": [], "go": threading.Event(), "answer": []}

    def getaddrinfo(host: bytes, port: None, **options: Any) -> list[Any]:
        hands["asked"].append((host, port, options))
        hands["go"].wait(20)
        if isinstance(hands["answer"], Exception):
            raise hands["answer"]
        return list(hands["answer"])

    with patch("socket.getaddrinfo", getaddrinfo):
        yield hands
        hands["go"].set()


async def test_the_system_is_asked_once_for_both_kinds_of_address(system: dict[str, Any]) -> None:
    system["go"].set()
    system["answer"] = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 0)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2606:2800::1", 0, 0, 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/run/x"),
    ]
    assert await SystemResolver().resolve("xn--bcher-kva.test") == ["93.184.215.14", "2606:2800::1"]
    assert system["asked"] == [(b"xn--bcher-kva.test", None, {"type": socket.SOCK_STREAM})]


async def test_the_system_s_no_is_an_error(system: dict[str, Any]) -> None:
    system["go"].set()
    system["answer"] = socket.gaierror(-2, "Name or service not known")
    with pytest.raises(ToolError, match="Name or service not known"):
        await addresses_of("a.test", SystemResolver())


async def test_look_ups_that_hang_keep_their_places_and_give_them_back(system: dict[str, Any]) -> None:
    resolver = SystemResolver(lookups_max=2, wait_s=0)
    for _ in range(2):
        with pytest.raises(ToolError, match="was not found within"):
            await addresses_of("a.test", resolver, 0.01)
    with pytest.raises(ToolError, match="too many look-ups hang"):
        await addresses_of("a.test", resolver, 0.01)
    system["answer"] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("9.9.9.9", 0))]
    system["go"].set()
    for thread in threading.enumerate():
        if thread.name == "look-up":
            await asyncio.to_thread(thread.join, 20)
    assert await addresses_of("a.test", resolver) == ["9.9.9.9"]


async def test_a_thread_that_cannot_start_keeps_no_place() -> None:
    resolver = SystemResolver(lookups_max=1)
    for _ in range(2):
        with patch("threading.Thread.start", side_effect=RuntimeError("no thread")), pytest.raises(RuntimeError):
            await resolver.resolve("a.test")


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(system: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="was not found within"):
        asyncio.run(addresses_of("a.test", SystemResolver(), 0.01))
    system["go"].set()
    for thread in threading.enumerate():
        if thread.name == "look-up":
            thread.join(20)


async def test_this_machine_knows_itself() -> None:
    assert set(await addresses_of("localhost", SystemResolver())) <= {"127.0.0.1", "::1"}


async def test_hanging_look_ups_of_one_agent_leave_places_for_another(system: dict[str, Any]) -> None:
    resolver = SystemResolver(wait_s=0)
    ON_BEHALF_OF.set("one")
    refusals = []
    for _ in range(LOOKUPS_MAX):
        with pytest.raises(ToolError) as refused:
            await addresses_of("a.test", resolver, 0.01)
        refusals.append("too many look-ups hang" in str(refused.value))
    assert refusals == [False] * (LOOKUPS_MAX // 2) + [True] * (LOOKUPS_MAX // 2)
    ON_BEHALF_OF.set("two")
    with pytest.raises(ToolError, match="was not found within"):
        await addresses_of("b.test", resolver, 0.01)
    assert system["asked"][-1][0] == b"b.test"
