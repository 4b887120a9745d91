"""References: what is filled in is counted first, and odd paths lead nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.codec import CodecError, canonical, weight
from agent_gate.model.references import References
from agent_gate.model.tool import Json

VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
)


@pytest.mark.parametrize("part", ["9" * 5000, "0" * 5000, "-1", "1", "99999999999", "x", "٣"])
def test_what_is_no_place_in_a_list_is_missing(part: str) -> None:
    references = References({"g": ["only"]})
    reference = f"${{steps.g.data.{part}}}"
    assert references.filled(reference) == reference
    assert references.missing == ([reference] if part.isascii() else [])


@given(VALUES)
def test_a_value_weighs_no_more_than_it_takes_to_write(value: Json) -> None:
    assert 0 < weight(value, 1_000_000) <= len(canonical(value))


@given(VALUES, st.integers(0, 50))
def test_weighing_ends_soon_after_it_is_enough(value: Json, enough: int) -> None:
    assert (weight(value, enough) > enough) == (weight(value, 1_000_000) > enough)


@pytest.mark.parametrize("template", ["${steps.g.data}", "x${steps.g.data}", "${steps.g.data.0}", "x${steps.g.data.0}"])
@pytest.mark.parametrize("reached", [["a" * 100], [[1] * 100], [{"k" * 100: None}]], ids=["text", "list", "key"])
def test_what_is_filled_in_counts_each_time(template: str, reached: Json) -> None:
    args = {str(n): template for n in range(20)}
    assert len(canonical(References({"g": reached}).filled(args))) > 2_000
    with pytest.raises(CodecError, match="larger than 1500 bytes"):
        References({"g": reached}, 1_500).filled(args)


def test_a_value_that_is_too_large_is_refused_before_it_is_written() -> None:
    class Unwritable(int):
        pass

    with pytest.raises(CodecError, match="larger than"):
        References({"g": [Unwritable()] * 100}, 50).filled("text ${steps.g.data}")
