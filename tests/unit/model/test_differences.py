"""Differences of documents: valid patches, found in one walk, bounded; and changes that are taken back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import STATE_DIFF_OPS_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.differences import difference, same
from agent_gate.model.taking_back import Drifted, taken_back
from agent_gate.model.tool import Json
from tests.growth import grows_linearly

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.text("a/~é", max_size=2) | st.just(0.5)
KEYS = st.text("ab/~", max_size=2)
DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_leads_from_one_document_to_the_other(before: Json, after: Json) -> None:
    given_before, given_after = canonical(before), canonical(after)
    patch = difference(before, after)
    assert canonical(jsonpatch.apply_patch(before, patch)) == given_after
    assert (canonical(before), canonical(after)) == (given_before, given_after)
    assert (patch == []) == (given_before == given_after)


@given(st.lists(SCALARS, max_size=8), st.data())
def test_an_element_that_comes_or_goes_is_one_operation(items: list[Json], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(items)))
    more = [*items[:index], {"new": 1}, *items[index:]]
    assert [each["op"] for each in difference(items, more)] == ["add"]
    assert [each["op"] for each in difference(more, items)] == ["remove"]


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ([0], [False]), ({"a": 1}, {"a": True})])
def test_a_truth_is_no_number(one: Json, other: Json) -> None:
    assert not same(one, other)
    assert difference(one, other)


LONG = "k" * 20_000
LARGE: dict[str, Callable[[int], tuple[Json, Json]]] = {
    "other numbers": lambda n: (list(range(n)), list(range(1, n + 1))),
    "numbers turned round": lambda n: (list(range(n)), list(range(n))[::-1]),
    "the same numbers, shuffled": lambda n: (list(range(n)), [number * 7919 % n for number in range(n)]),
    "every element twice": lambda n: ([0] * n, [0, 1] * n),
    "other keys": lambda n: ({f"a{k}": k for k in range(n)}, {f"b{k}": k for k in range(n)}),
    "other values": lambda n: (dict.fromkeys(map(str, range(n)), 0), dict.fromkeys(map(str, range(n)), 1)),
    "a list of objects": lambda n: ([{"a": k} for k in range(n)], [{"a": -k} for k in range(n)]),
    "below a long key": lambda n: ({LONG: [0] * n}, {LONG: [1] * n}),
    "both ends of a list below a long key": lambda n: ({LONG: [0] * n}, {LONG: [1, *[0] * (n - 2), 1]}),
    "lists in lists": lambda n: ([[k] * 20 for k in range(n)], [[k] * 19 for k in range(n)]),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=list(LARGE))
def test_the_walk_grows_with_the_documents_and_not_with_their_square(make: Callable[[int], tuple[Json, Json]]) -> None:
    assert grows_linearly(lambda n: difference(*make(n)), 100)


@pytest.mark.parametrize("make", LARGE.values(), ids=list(LARGE))
def test_a_difference_is_bounded_in_operations_and_in_text(make: Callable[[int], tuple[Json, Json]]) -> None:
    before, after = make(3 * STATE_DIFF_OPS_MAX // 2)
    patch = difference(before, after)
    assert len(patch) <= STATE_DIFF_OPS_MAX
    assert len(canonical(patch)) <= len(canonical(after)) + 2_000_000
    assert same(jsonpatch.apply_patch(before, patch), after)


@given(DOCUMENTS, DOCUMENTS)
def test_taking_back_the_last_change_leads_to_what_was_before(before: Json, after: Json) -> None:
    assert canonical(taken_back(before, after, deepcopy(after))) == canonical(before)


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_what_a_later_change_did_elsewhere_stays(before: Json, after: Json, later: Json) -> None:
    assert taken_back({"ours": before}, {"ours": after}, {"ours": after, "theirs": later}) == {
        "ours": before,
        "theirs": later,
    }


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_taking_back_touches_no_place_that_has_changed_since(before: Json, after: Json, now: Json) -> None:
    given_now = canonical(now)
    try:
        result = taken_back(before, after, now)
    except Drifted:
        assert not same(after, now)
    else:
        if same(before, after):
            assert canonical(result) == given_now
    assert canonical(now) == given_now


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        ([1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 4]),
        ([1, 2, 3], [1, 3], [1, 3, 4], [1, 2, 3, 4]),
        ([{"a": 1}], [{"a": 2}], [{"a": 2, "b": 3}], [{"a": 1, "b": 3}]),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}, "c": 2}, {"c": 2}),
        ({"a": 1}, {}, {"c": 2}, {"c": 2, "a": 1}),
    ],
)
def test_a_change_in_the_midst_of_others_is_taken_back(before: Json, after: Json, now: Json, expected: Json) -> None:
    assert taken_back(before, after, now) == expected


@pytest.mark.parametrize(
    ("before", "after", "now", "path"),
    [
        (1, 2, 3, ""),
        ({"a": 1}, {"a": 2}, {"a": 3}, "/a"),
        ({"a": 1}, {"a": 2}, {}, "/a"),
        ({}, {"a": {"b": 1}}, {"a": {"b": 2}}, "/a"),
        ({"a": 1}, {}, {"a": 2}, "/a"),
        ([1, 2], [1, 2, 3], [1, 2], "/2"),
        ([1, 2, 3], [1, 2], [1, 2, 4], "/2"),
        ([1, 2, 3], [1, 2], [1], "/1"),
        ({"a/b": [1]}, {"a/b": [2]}, {"a/b": [3]}, "/a~1b/0"),
    ],
)
def test_a_place_that_both_touched_is_named(before: Json, after: Json, now: Json, path: str) -> None:
    with pytest.raises(Drifted) as refused:
        taken_back(before, after, now)
    assert refused.value.path == path


@pytest.mark.parametrize("make", LARGE.values(), ids=list(LARGE))
def test_taking_back_grows_with_the_documents_and_not_with_their_square(
    make: Callable[[int], tuple[Json, Json]],
) -> None:
    def work(n: int) -> None:
        before, after = make(n)
        taken_back({"a": before}, {"a": after}, {"a": after, "b": 1})

    assert grows_linearly(work, 100)
