"""`rate_limit`: so many in so much time, for each caller apart, in bounded memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.builtin.rate_limit import RateLimit
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from tests.gates import HandClock
from tests.unit.chain.builtin.asking import answer_of, ask

THREE_A_MINUTE = {"limit": 3, "per_seconds": 60}


def from_address(address: str, **more: Any) -> RequestContext:
    return RequestContext.create(client_ip=address, **more)


async def passes(policy: RateLimit, metadata: dict[str, Any], context: RequestContext) -> bool:
    return (await ask(policy, metadata, context)).passes


async def test_a_burst_passes_and_then_one_at_a_time() -> None:
    clock = HandClock()
    policy, caller = RateLimit(clock), from_address("1.2.3.4")
    assert [await passes(policy, THREE_A_MINUTE, caller) for _ in range(4)] == [True, True, True, False]
    clock.advance(19)
    assert not await passes(policy, THREE_A_MINUTE, caller)
    clock.advance(1)
    assert [await passes(policy, THREE_A_MINUTE, caller) for _ in range(2)] == [True, False]


async def test_who_is_refused_is_told_when_to_come_again() -> None:
    clock = HandClock()
    policy, caller = RateLimit(clock), from_address("1.2.3.4")
    for _ in range(3):
        await ask(policy, THREE_A_MINUTE, caller)
    clock.advance(0.5)
    status, headers, _ = answer_of(await ask(policy, THREE_A_MINUTE, caller))
    assert (status, headers["retry-after"]) == (429, "20")
    clock.advance(20)
    assert await passes(policy, THREE_A_MINUTE, caller)


async def test_a_refused_request_does_not_count() -> None:
    clock = HandClock()
    policy, caller = RateLimit(clock), from_address("1.2.3.4")
    for _ in range(100):
        await ask(policy, THREE_A_MINUTE, caller)
    clock.advance(20)
    assert await passes(policy, THREE_A_MINUTE, caller)


@pytest.mark.parametrize(
    ("metadata", "one", "same", "other"),
    [
        ({}, from_address("1.2.3.4"), from_address("::ffff:1.2.3.4"), from_address("1.2.3.5")),
        ({}, from_address("2001:db8::1"), from_address("2001:db8::ffff:1"), from_address("2001:db8:0:1::1")),
        ({"ipv6_prefix": 128}, from_address("2001:db8::1"), from_address("2001:DB8:0::1"), from_address("2001:db8::2")),
        (
            {"by": "header", "header": "X-Team"},
            from_address("1.1.1.1", headers={"x-team": "a"}),
            from_address("2.2.2.2", headers={"X-TEAM": "a"}),
            from_address("1.1.1.1", headers={"x-team": "b"}),
        ),
        (
            {"by": "identity"},
            from_address("1.1.1.1", state={"identity": {"id": "a"}}),
            from_address("2.2.2.2", state={"identity": {"id": "a", "by": "jwt"}}),
            from_address("1.1.1.1", state={"identity": {"id": "b"}}),
        ),
    ],
)
async def test_callers_are_told_apart(
    metadata: dict[str, Any], one: RequestContext, same: RequestContext, other: RequestContext
) -> None:
    policy, whole = RateLimit(HandClock()), {"limit": 1, "per_seconds": 60, **metadata}
    assert [await passes(policy, whole, caller) for caller in (one, same, other)] == [True, False, True]


async def test_all_callers_together() -> None:
    policy, whole = RateLimit(HandClock()), {"limit": 1, "per_seconds": 60, "by": "all"}
    callers = [from_address("1.1.1.1"), from_address("2.2.2.2")]
    assert [await passes(policy, whole, caller) for caller in callers] == [True, False]


@pytest.mark.parametrize(
    ("metadata", "context"),
    [
        ({}, from_address("")),
        ({}, from_address("unknown")),
        ({"by": "header", "header": "x"}, from_address("1.1.1.1")),
        ({"by": "header", "header": "x"}, from_address("1.1.1.1", headers=[("x", "1"), ("X", "2")])),
        ({"by": "identity"}, from_address("1.1.1.1")),
        ({"by": "identity"}, from_address("1.1.1.1", state={"identity": "a"})),
    ],
)
async def test_who_cannot_be_told_apart_is_refused(metadata: dict[str, Any], context: RequestContext) -> None:
    response = await ask(RateLimit(HandClock()), {**THREE_A_MINUTE, **metadata}, context)
    assert answer_of(response)[0] == 403


async def test_limits_that_are_worded_differently_count_apart() -> None:
    policy, caller = RateLimit(HandClock()), from_address("1.1.1.1")
    one = {"limit": 1, "per_seconds": 60}
    named = [{**one, "name": "a"}, {**one, "name": "b"}, {**one, "name": "a"}]
    assert [await passes(policy, metadata, caller) for metadata in named] == [True, True, False]


async def test_memory_is_bounded_and_a_stranger_too_many_is_refused_until_others_are_forgotten() -> None:
    clock = HandClock()
    policy = RateLimit(clock, keys_max=3)
    metadata = {"limit": 1, "per_seconds": 10}
    addresses = [from_address(f"1.1.1.{number}") for number in range(4)]
    assert [await passes(policy, metadata, caller) for caller in addresses] == [True, True, True, False]
    assert answer_of(await ask(policy, metadata, addresses[3]))[0] == 429
    clock.advance(11)
    assert [await passes(policy, metadata, caller) for caller in addresses] == [True, True, True, False]


async def test_known_callers_keep_their_place_while_the_memory_is_full() -> None:
    clock = HandClock()
    policy = RateLimit(clock, keys_max=1)
    metadata = {"limit": 2, "per_seconds": 10}
    known, stranger = from_address("1.1.1.1"), from_address("2.2.2.2")
    assert [await passes(policy, metadata, caller) for caller in (known, stranger, known)] == [True, False, True]


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), min_size=1, max_size=30),
)
def test_no_stretch_of_time_holds_more_than_burst_and_rate_allow(limit: int, burst: int, pauses: list[float]) -> None:
    clock = HandClock()
    policy = RateLimit(clock)
    settings = policy.prepare({"limit": limit, "per_seconds": 1, "burst": burst, "by": "all"})
    passed: list[float] = []
    for pause in pauses:
        clock.advance(pause)
        coroutine = policy.execute(settings, RequestContext())
        try:
            coroutine.send(None)
        except StopIteration as done:
            if not done.value.instructions:
                passed.append(clock.monotonic())
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - start) * limit + 1e-6


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"limit": 0, "per_seconds": 1},
        {"limit": 1, "per_seconds": 0},
        {"limit": 1, "per_seconds": 1, "by": "header"},
        {"limit": 1, "per_seconds": 1, "header": "x"},
        {"limit": 1, "per_seconds": 1, "by": "moon"},
        {"limit": 1, "per_seconds": 1, "burst": 0},
        {"limit": 1, "per_seconds": 1, "ipv6_prefix": 129},
    ],
)
async def test_metadata_that_make_no_sense_are_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await ask(RateLimit(HandClock()), metadata)
