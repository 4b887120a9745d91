"""How many requests of an agent are admitted, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.call import Agent
from agent_gate.pipeline.admit import Pace


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 13, 59, 60, 61, 977])
@pytest.mark.parametrize("now", [0.0, 123_456.789, 1e9])
def test_a_minute_s_worth_may_come_at_once_and_not_one_more(limit: int, now: float) -> None:
    pace, bot = Pace(), Agent("bot", requests_per_minute=limit)
    assert [pace.has_room(bot, now) for _ in range(limit + 1)] == [True] * limit + [False]
    assert pace.has_room(bot, now + 60 / limit + 1e-3)


def test_an_agent_without_a_limit_has_room_and_agents_do_not_share() -> None:
    pace = Pace()
    assert all(pace.has_room(Agent("free"), 0.0) for _ in range(1_000))
    assert pace.has_room(Agent("one", requests_per_minute=1), 0.0)
    assert pace.has_room(Agent("two", requests_per_minute=1), 0.0)


@given(st.lists(st.floats(0, 40), min_size=1, max_size=60), st.integers(1, 10))
def test_within_a_minute_never_more_than_twice_the_limit_and_in_the_long_run_the_limit(
    pauses: list[float], limit: int
) -> None:
    pace, bot, now = Pace(), Agent("bot", requests_per_minute=limit), 0.0
    admitted: list[float] = []
    for pause in pauses:
        now += pause
        if pace.has_room(bot, now):
            admitted.append(now)
    for start in admitted:
        assert sum(start <= moment < start + 60 for moment in admitted) <= 2 * limit
    assert len(admitted) <= limit + (now - 0.0) * limit / 60 + 1
