"""JSON values as protobuf carries them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from google.protobuf.struct_pb2 import NullValue, Struct, Value

from agent_gate.chain.faults import InvalidRequest
from agent_gate.model.tool import Json

_EXACT_MAX = 2**53
"""Beyond it a double, which is all that protobuf has for a number here, cannot tell one integer from the next."""


def fields_of(struct: Struct) -> dict[str, Json]:
    return {key: json_of(value) for key, value in struct.fields.items()}


def json_of(value: Value) -> Json:
    """InvalidRequest where it is no JSON value."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return fields_of(value.struct_value)
        case "list_value":
            return [json_of(item) for item in value.list_value.values]
        case "null_value":
            return None
        case _:
            raise InvalidRequest("a value has no kind", suggestion="send JSON values")


def _number(number: float) -> int | float:
    """Integers come as doubles too, and are meant as what they were."""
    if not math.isfinite(number):
        raise InvalidRequest("a number is not finite", suggestion="send JSON values")
    return int(number) if number.is_integer() and abs(number) <= _EXACT_MAX else number


def fill(value: Value, given: Json) -> None:
    """Puts a JSON value, as the codec knows it, into the message."""
    match given:
        case str():
            value.string_value = given
        case bool():
            value.bool_value = given
        case int() | float():
            # The codec has no integers that a double cannot hold.
            value.number_value = given
        case None:
            value.null_value = NullValue.NULL_VALUE
        case list():
            value.list_value.SetInParent()
            for item in given:
                fill(value.list_value.values.add(), item)
        case dict():
            value.struct_value.SetInParent()
            fill_struct(value.struct_value, given)
        case _:
            raise TypeError(f"{type(given).__name__} is not JSON")


def fill_struct(struct: Struct, given: Mapping[str, Json]) -> None:
    for key, item in given.items():
        fill(struct.fields[key], item)


def struct_of(given: Mapping[str, Json]) -> Struct:
    struct = Struct()
    fill_struct(struct, given)
    return struct
