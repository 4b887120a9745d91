"""Moments are epoch seconds inside and ISO 8601 in UTC outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.moment import epoch, iso, span


def test_a_moment_is_written_in_utc_with_microseconds() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(1_772_625_600.25) == "2026-03-04T12:00:00.250000Z"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-04T12:00:00.250000Z", 1_772_625_600.25),
        ("2026-03-04T12:00:00", 1_772_625_600.0),
        ("2026-03-04T13:00:00+01:00", 1_772_625_600.0),
        ("2026-03-04", 1_772_582_400.0),
    ],
)
def test_a_moment_is_read_in_whatever_offset_it_is_written(text: str, moment: float) -> None:
    assert epoch(text) == moment


_moments = st.integers(0, 4_000_000_000_000_000).map(lambda micros: micros / 1e6)


@given(_moments)
def test_what_is_written_can_be_read_again(moment: float) -> None:
    assert abs(epoch(iso(moment)) - moment) <= 1e-6
    assert iso(epoch(iso(moment))) == iso(moment)


@given(_moments, _moments)
def test_the_order_of_texts_is_the_order_of_moments(one: float, other: float) -> None:
    if abs(one - other) > 1e-5:
        assert (iso(one) < iso(other)) == (one < other)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0.04, "0.0 ms"), (999.94, "999.9 ms"), (1_000, "1.0 s"), (119_900, "119.9 s"), (200_500, "3 min 20 s")],
)
def test_a_span_is_told_in_the_unit_that_suits_it(duration_ms: float, text: str) -> None:
    assert span(duration_ms) == text
