"""The stretch of the past that history and statistics are asked for."""

from __future__ import annotations

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.model.moment import epoch
from agent_gate.services.home_assistant.moments import window_of

NOW = epoch("2026-03-04T12:00:00Z")


@pytest.mark.parametrize(
    ("start", "end", "window"),
    [
        ("2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z", ("2026-02-01T00:00:00+00:00", "2026-02-02T00:00:00+00:00")),
        ("2026-02-01T01:00:00+01:00", "20260202T00Z", ("2026-02-01T00:00:00+00:00", "2026-02-02T00:00:00+00:00")),
        ("2026-02-01T00:00:00Z", "2026-03-04T23:59:59Z", ("2026-02-01T00:00:00+00:00", "2026-03-04T12:00:00+00:00")),
    ],
)
def test_moments_are_told_in_utc_and_end_now_at_the_latest(start: str, end: str, window: tuple[str, str]) -> None:
    assert window_of({"start": start, "end": end}, NOW) == window


def test_without_an_end_it_is_now() -> None:
    assert window_of({"start": "2026-03-04T11:00:00Z"}, NOW).end == "2026-03-04T12:00:00+00:00"


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("2026-02-01T00:00:00", "2026-02-02T00:00:00Z", "`start` names no zone"),
        ("2026-02-01", "2026-02-02T00:00:00Z", "`start` names no zone"),
        ("2026-02-01T00:00:00Z", "2026-02-02 00:00", "`end` names no zone"),
        ("yesterday", "2026-02-02T00:00:00Z", "`start` is no moment: `yesterday`"),
        ("", "2026-02-02T00:00:00Z", "`start` is no moment"),
        ("2026-02-01T00:00:00Z", "a\nb", "`end` is no moment: `a⟨U+000A⟩b`"),
        ("0001-01-01T00:00:00+14:00", "2026-02-02T00:00:00Z", "`start` is no moment"),
        ("2026-02-02T00:00:00Z", "2026-02-01T00:00:00Z", "`start` is not before `end`"),
        ("2026-02-02T00:00:00Z", "2026-02-02T01:00:00+01:00", "`start` is not before `end`"),
        ("2026-03-04T12:00:00Z", "2026-03-05T00:00:00Z", "`start` is in the future"),
        ("2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "`start` is in the future"),
    ],
)
def test_what_is_no_stretch_of_the_past_is_refused_with_what_to_write(start: str, end: str, said: str) -> None:
    with pytest.raises(ToolError) as raised:
        window_of({"start": start, "end": end}, NOW)
    assert (raised.value.code, raised.value.problem.detail[: len(said)]) == (2002, said)
    assert raised.value.problem.suggestion
