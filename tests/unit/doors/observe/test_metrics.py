"""Histograms: what is added at once, one by one, or waits to be placed counts the same."""

from __future__ import annotations

import random

import pytest

from agent_gate.doors.observe.metrics import PASSED_MAX, STAGE_BOUNDS_S, STAGES, Durations, Meter
from tests.gates import HandClock


@pytest.mark.parametrize("count", [0, 1, 5, PASSED_MAX, 2 * PASSED_MAX + 7])
def test_each_duration_is_counted_in_every_bucket_that_it_fits(count: int) -> None:
    chance = random.Random(count)
    given = [chance.choice([*STAGE_BOUNDS_S, 10 ** chance.uniform(-6, 4)]) for _ in range(count)]
    durations = Durations(STAGE_BOUNDS_S)
    durations.add_all(given[: count // 2])
    for seconds in given[count // 2 :]:
        durations.add(seconds)
    buckets, sum_s = durations.buckets()
    bounds = [*STAGE_BOUNDS_S, float("inf")]
    assert [value for _, value in buckets] == [sum(seconds <= bound for seconds in given) for bound in bounds]
    assert sum_s == pytest.approx(sum(given))


def test_stages_are_as_long_as_until_the_next_and_never_pile_up() -> None:
    clock = HandClock()
    meter = Meter(clock)
    begun = clock.monotonic() - 10.0
    stages = [(stage, begun + number) for number, stage in enumerate(STAGES)]
    for _ in range(PASSED_MAX + 3):
        meter.ended("c", "t", None, stages)
    assert len(meter._passed) < PASSED_MAX
    list(meter.collect())
    found = {stage: durations.buckets() for stage, durations in meter._stages.items()}
    assert {stage: sum_s for stage, (_, sum_s) in found.items()} == {
        stage: pytest.approx((PASSED_MAX + 3) * (5.0 if stage == STAGES[-1] else 1.0)) for stage in STAGES
    }
