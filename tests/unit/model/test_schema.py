"""What is wrong with a value is said on one line, and whoever reads it knows what would be right."""

from __future__ import annotations

import pytest

from agent_gate.model.schema import validator
from agent_gate.model.tool import Json

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ALL_DAYS = ", ".join(f'"{day}"' for day in DAYS)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"enum": DAYS}, "mo", f'"mo" is not one of {ALL_DAYS}'),
        ({"enum": [1, None, True, "a"]}, 2, '2 is not one of 1, null, true, "a"'),
        ({"properties": {"day": {"enum": DAYS}}}, {"day": "x"}, f'day: "x" is not one of {ALL_DAYS}'),
        (
            {"anyOf": [{"enum": DAYS}, {"type": "null"}]},
            "x",
            f'"x" is not one of {ALL_DAYS}, or "x" is not of type "null"',
        ),
        (
            {"oneOf": [{"enum": DAYS}, {"type": "null"}]},
            "x",
            f'"x" is not one of {ALL_DAYS}, or "x" is not of type "null"',
        ),
        (
            {"items": {"enum": DAYS}},
            [" is not one of "],
            f'0: " is not one of " is not one of {ALL_DAYS}',
        ),
    ],
)
def test_an_enum_error_lists_every_value(schema: dict[str, Json], value: Json, told: str) -> None:
    assert validator(schema)(value) == told


def test_alternatives_of_which_two_fit_are_told_as_such() -> None:
    complaint = validator({"oneOf": [{"enum": ["a", "b", "c"]}, {"enum": ["a"]}, {"enum": ["x"]}]})("a") or ""
    assert "more than one" in complaint


def test_an_enum_error_lists_every_value_also_where_there_are_many_and_the_one_given_is_long() -> None:
    names = [f"value_number_{number}" for number in range(100)]
    complaint = validator({"enum": names})("x" * 10_000) or ""
    assert [name for name in names if f'"{name}"' not in complaint] == []
    assert len(complaint) < 4_000


def test_an_enum_without_end_is_cut() -> None:
    complaint = validator({"enum": [f"value_number_{number}" for number in range(10_000)]})("x") or ""
    assert len(complaint) < 5_000


def test_an_enum_error_about_a_secret_shows_the_values_and_not_the_secret() -> None:
    assert validator({"enum": ["a", "b", "c", "d"]}, hide_values=True)("hunter2") == (
        'the value is not one of "a", "b", "c", "d"'
    )


def test_a_complaint_stays_on_one_short_line() -> None:
    complaint = validator({"type": "array", "items": {"type": "integer"}})(["a\nb " * 10] * 100) or ""
    assert ("\n" in complaint, len(complaint) <= 500) == (False, True)
