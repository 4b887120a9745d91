"""Secret arguments are sealed where they are kept and hidden where they are quoted."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from agent_gate.model.secrecy import output_without_secrets, recorded_args, recorded_misfit, without_secrets
from agent_gate.model.tool import Json, ToolDeclaration

SCHEMA = {"type": "object", "properties": {"user": {}, "key": {}}}
TOOL = ToolDeclaration("t", input_schema=SCHEMA, secret=frozenset({"key"}))
OPEN = ToolDeclaration("t", input_schema=SCHEMA)


def sealed(value: bytes) -> str:
    return f"sealed {len(value)}"


def test_only_the_secret_arguments_are_sealed() -> None:
    assert recorded_args({"user": "anna", "key": "abc"}, TOOL, sealed) == {
        "user": "anna",
        "key": {"$secret": "sealed 7"},
    }
    args = {"user": "anna"}
    assert recorded_args(args, TOOL, sealed) is args


def test_of_arguments_that_do_not_fit_everything_with_an_unknown_name_is_sealed_too() -> None:
    found = recorded_misfit({"user": "anna", "kee": "abc", "key": 1}, TOOL, sealed)
    assert found == {"user": "anna", "kee": {"$secret": "sealed 7"}, "key": {"$secret": "sealed 3"}}
    args = {"user": "anna", "kee": "abc"}
    assert recorded_misfit(args, OPEN, sealed) is args


def test_the_longest_secret_is_hidden_first_so_that_nothing_of_it_stays() -> None:
    args = {"key": ["abc", "abcdef"]}
    assert without_secrets("it is abcdef, or abc", args, TOOL) == "it is ***, or ***"


def test_texts_are_hidden_as_python_and_json_spell_them() -> None:
    secret = "a'b\"c\nd"
    said = f"{secret} | {secret!r} | {json.dumps(secret)}"
    hidden = without_secrets(said, {"key": secret}, TOOL)
    assert hidden.replace("*", "").replace("'", "").replace('"', "") == " |  | "


def test_without_secrets_nothing_is_touched() -> None:
    data = {"x": [1, "abc"]}
    assert output_without_secrets(data, {"user": "abc"}, TOOL) is data
    assert without_secrets("abc", {"user": "abc", "key": ""}, TOOL) == "abc"
    assert output_without_secrets({"ok": True, "n": 1}, {"key": True}, TOOL) == {"ok": True, "n": 1}


_values = st.recursive(
    st.text(st.characters(codec="utf-8"), min_size=4, max_size=12) | st.integers(10_000, 2**53),
    lambda part: st.lists(part, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=3), part, min_size=1),
    max_leaves=4,
)


def _leaves(value: Json) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list) else [str(value)]


@given(_values)
def test_no_part_of_a_secret_is_left_in_what_a_tool_says_or_returns(secret: Json) -> None:
    leaves = _leaves(secret)
    assume(all("*" not in leaf for leaf in leaves))
    args = {"key": secret}
    said = without_secrets(" and ".join(f"<{leaf}>" for leaf in leaves), args, TOOL)
    returned = output_without_secrets({"echo": secret, "list": [f"x{leaf}y" for leaf in leaves]}, args, TOOL)
    shown = json.dumps(returned, ensure_ascii=False)
    for leaf in leaves:
        assert f"<{leaf}>" not in said
        assert f"x{leaf}y" not in shown
