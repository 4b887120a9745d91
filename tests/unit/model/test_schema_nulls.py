"""Which arguments of a schema take null for an absence."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.schema import names_without_null, validator, without_nulls
from agent_gate.tools.catalogue import BUILTIN


def schema(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


@pytest.mark.parametrize(
    "about",
    [
        {"type": "string"},
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
        {"enum": ["a", "b"]},
        {"const": 5},
        {"$ref": "#/$defs/text"},
        {"$ref": "#/properties/other"},
        {"type": ["string", "null"], "enum": ["a"]},
        {"not": {"type": "null"}},
        False,
    ],
)
def test_an_optional_argument_that_null_does_not_fit_takes_it_for_an_absence(about: Any) -> None:
    tool = {**schema(x=about, other={"type": "string"}), "$defs": {"text": {"type": "string"}}}
    assert names_without_null(tool) == {"x", "other"}


@pytest.mark.parametrize(
    "about",
    [
        {"type": "null"},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"enum": ["a", None]},
        {"$ref": "#/$defs/maybe"},
        {"description": "anything"},
        {},
        True,
    ],
)
def test_where_null_is_a_value_it_stays_one(about: Any) -> None:
    tool = {**schema(x=about), "$defs": {"maybe": {"type": ["string", "null"]}}}
    assert names_without_null(tool) == set()


def test_what_a_schema_says_of_its_arguments_together_does_not_count() -> None:
    alone = {**schema("y", x={"enum": [1]}, y={"type": "string"}), "oneOf": [{"required": ["x", "y"]}]}
    assert names_without_null(alone) == {"x"}
    assert names_without_null({**schema(x={"enum": [None]}), "minProperties": 2}) == set()


def test_an_argument_that_must_be_given_and_one_that_nobody_declares_keep_their_null() -> None:
    tool = schema("y", x={"type": "string"}, y={"type": "string"})
    names = names_without_null(tool)
    assert without_nulls({"x": None, "y": None, "z": None}, names) == {"y": None, "z": None}
    assert without_nulls({"y": {"x": None}}, names) == {"y": {"x": None}}


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_of_every_tool_of_ours_null_is_either_valid_or_an_absence(name: str) -> None:
    declared = BUILTIN[name].input_schema
    names, fits = names_without_null(declared), validator({**declared, "required": []})
    for argument in declared.get("properties", {}):
        is_optional = argument not in declared.get("required", ())
        assert (argument in names) == (is_optional and fits({argument: None}) is not None)
