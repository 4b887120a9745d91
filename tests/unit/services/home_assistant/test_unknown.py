"""Names that a home does not have, and those that were perhaps meant."""

from __future__ import annotations

from agent_gate.model.bounds import HOME_NAME_CHARS_MAX, HOME_NAMES_COMPARED_CLOSELY_MAX
from agent_gate.services.home_assistant.unknown import NAMED_MAX, nearest, shown

MANY = [f"meter_{number}_of_the_cellar" for number in range(20 * HOME_NAMES_COMPARED_CLOSELY_MAX)]


def test_the_nearest_come_first_and_are_few() -> None:
    names = ["kitchen_lights", "kitchen_light", "kitchen_lamp", "kitchen_night", "attic"]
    found = nearest("kitchen_ligth", names)
    assert found[0] == "kitchen_light"
    assert len(found) == NAMED_MAX


def test_case_is_no_difference_and_the_name_s_own_spelling_is_given_back() -> None:
    assert nearest("LIVING ROM", ["Living Room", "Attic"]) == ["Living Room"]


def test_among_very_many_the_one_that_shares_words_is_found() -> None:
    assert nearest("kitchen_temprature", [*MANY, "kitchen_temperature"]) == ["kitchen_temperature"]
    assert nearest("outsde_humidity", [*MANY, "outside_humidity"]) == ["outside_humidity"]


def test_where_nothing_is_near_nothing_is_named() -> None:
    assert nearest("moon", [*MANY, "kitchen"]) == []
    assert nearest("moon", []) == []


def test_what_is_shown_of_a_name_is_one_line_of_bounded_length() -> None:
    assert shown("a\nb\u202ec") == "a⟨U+000A⟩b⟨U+202E⟩c"
    assert len(shown("x" * 10_000)) <= HOME_NAME_CHARS_MAX
