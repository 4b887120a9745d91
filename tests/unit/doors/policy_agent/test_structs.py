"""JSON values come back from protobuf as they went in, or are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.faults import InvalidRequest
from agent_gate.doors.policy_agent.structs import fields_of, json_of, struct_of

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_SCALARS = (
    st.none() | st.booleans() | _TEXT | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4), max_leaves=20
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_values_come_back_as_they_went_in(fields: dict[str, Any]) -> None:
    assert fields_of(Struct.FromString(struct_of(fields).SerializeToString())) == fields


def test_integers_are_integers_again() -> None:
    fields = fields_of(struct_of({"limit": 5, "rate": 0.5}))
    assert (type(fields["limit"]), type(fields["rate"])) == (int, float)


@pytest.mark.parametrize("value", [Value(), Value(number_value=math.nan), Value(number_value=math.inf)])
def test_what_is_no_json_value_is_refused(value: Value) -> None:
    with pytest.raises(InvalidRequest):
        json_of(value)
