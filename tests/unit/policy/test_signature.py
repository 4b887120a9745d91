"""Signatures: one call, one name; no two calls with one name; and nothing that could be mistaken for another."""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import SIGNATURES_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import ArgumentKind, ToolDeclaration
from agent_gate.policy.signature import shown, signatures_for
from agent_gate.tools.by_name import build_signature, build_signatures, validate_args
from agent_gate.tools.catalogue import BUILTIN
from agent_gate.tools.home_assistant.declarations import HA_CALL_SERVICE


@pytest.mark.parametrize(
    ("tool", "args", "signature"),
    [
        (
            "ha_call_service",
            {"domain": "light", "service": "turn_on", "entity_id": "light.bedroom"},
            "ha_call_service(light.turn_on, light.bedroom)",
        ),
        ("ha_get_state", {"entity_id": "sensor.temp"}, "ha_get_state(sensor.temp)"),
        ("ha_get_states", {}, "ha_get_states"),
        ("ha_fire_event", {"event_type": "custom_event"}, "ha_fire_event(custom_event)"),
        ("unknown_tool", {"b": "2", "a": "1"}, "unknown_tool(1, 2)"),
        ("no_args_tool", {}, "no_args_tool"),
    ],
)
def test_a_call_has_the_signature_of_the_document(tool: str, args: dict[str, Any], signature: str) -> None:
    assert build_signature(tool, args) == signature


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("t", {"a": "light.*"}),
        ("t", {"a": "x["}),
        ("t", {"a": "x\x00"}),
        ("t", {"a": "x\x1f"}),
        ("ha_get_state", {"entity_id": "Light.Bedroom"}),
        ("ha_get_state", {"entity_id": "light bedroom"}),
        ("ha_get_state", {"entity_id": "light.bedroom\n"}),
        ("ha_get_state", {"entity_id": "light.a.b"}),
        ("ha_call_service", {"domain": "Light"}),
        ("ha_call_service", {"service": "turn on"}),
        ("ha_call_service", {"entity_id": ["light.a", "light.B"]}),
        ("ha_call_service", {"entity_id": [["light.a"]]}),
        ("ha_fire_event", {"event_type": "1st"}),
    ],
)
def test_arguments_that_could_be_taken_for_something_else_are_refused(tool: str, args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^argument `.+` of `.+` (contains|is not)"):
        validate_args(tool, args)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_get_state", {"entity_id": "light.bedroom"}),
        ("ha_get_state", {"entity_id": "sensor.living_room_temp"}),
        ("ha_get_state", {"entity_id": "all"}),
        ("ha_call_service", {"entity_id": ["light.bedroom", "light.hall"], "domain": "light", "brightness": 255}),
        ("ha_call_service", {"domain": "light", "service": "turn_on", "entity_id": None}),
        ("t", {"count": 42, "flag": True, "nothing": None, "share": 0.5}),
        ("t", {"a": {"b": ["c", 1, {"d": "é %"}]}}),
    ],
)
def test_ordinary_arguments_pass(tool: str, args: dict[str, Any]) -> None:
    validate_args(tool, args)


def test_arguments_nested_beyond_all_measure_are_still_looked_at() -> None:
    deep: Any = "*"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="contains"):
        validate_args("t", {"a": deep})


@pytest.mark.parametrize("tool", ["ha_call_service", "t"])
def test_arguments_nested_too_deep_are_an_argument_error(tool: str) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ToolError) as refused:
        signatures_for(
            BUILTIN.get(tool) or ToolDeclaration(tool), {"domain": "light", "service": "turn_on", "data": {"a": deep}}
        )
    assert refused.value.code == 2002


def test_one_entity_in_a_list_is_one_target() -> None:
    call = {"domain": "homeassistant", "service": "turn_off", "entity_id": ["lock.a"]}
    assert build_signature("ha_call_service", call) == "ha_call_service(homeassistant.turn_off, lock.a)"
    assert build_signature("ha_activate_scene", {"entity_id": "scene.a"}) == "ha_call_service(scene.turn_on, scene.a)"


def test_several_entities_have_no_single_signature() -> None:
    call = {"domain": "light", "service": "turn_off", "entity_id": ["light.a", "light.b"]}
    with pytest.raises(ValueError, match="the call has 2 targets"):
        build_signature("ha_call_service", call)


def test_more_targets_than_the_limit_are_refused() -> None:
    call = {"domain": "light", "service": "turn_off", "entity_id": [f"light.l{n}" for n in range(SIGNATURES_MAX)]}
    assert len(build_signatures("ha_call_service", call)) == SIGNATURES_MAX
    with pytest.raises(ToolError, match="reaches more than 1000 targets; split it"):
        signatures_for(HA_CALL_SERVICE, {**call, "data": {"entity_id": "light.other"}})


def test_a_refusal_says_which_argument_and_what_to_do_and_not_its_value() -> None:
    with pytest.raises(ToolError) as refused:
        signatures_for(HA_CALL_SERVICE, {"domain": "light", "service": "on", "entity_id": "Hunter 2"})
    assert str(refused.value) == (
        "bad_arguments: `entity_id` is not an entity id or a list of them; write each as `light.kitchen`, in lower case"
    )


def test_a_short_signature_is_shown_whole_and_a_long_one_with_its_hash() -> None:
    short, long = "t(" + "x" * 197 + ")", "t(" + "x" * 198 + ")"
    assert shown(short) == short
    assert shown(long) == long[:200] + "~sha256:" + sha256(long.encode()).hexdigest()


_TRICKY = ["", " ", "a", "b", "true", "null", "1", "1.0", "-0", "1e5", '"', '""', '"a"', "[1]", "{}", "%22", "%5B1%5D"]
_TRICKY += [
    ",",
    ", ",
    "a, b",
    "=",
    "a=b",
    "k=v",
    ")",
    "t(a)",
    "*",
    "?",
    "[",
    "\n",
    "\x7f",
    "\u2028",
    "é",
    "NaN",
    " 1",
    "\ud83d",
]
_NAMES = st.sampled_from(["a", "b", "c", "k", "k=v", "a, b", "", "=", "%", "é", "(", "\n"])
_SCALARS = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 1.0, 1e30]) | st.sampled_from(_TRICKY[:-1])
)
_JSON = st.recursive(
    _SCALARS | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_ARGS = st.dictionaries(_NAMES, _JSON, max_size=4)
DECLARED = ToolDeclaration(
    "t",
    input_schema={"properties": {"a": {"type": "string"}, "b": {}, "c": {"type": ["string", "null"]}, "u": {}}},
    arguments={"u": ArgumentKind.UNSIGNED},
)


def _read_back(signature: str) -> dict[str, Any]:
    """The arguments that a signature of DECLARED stands for, found without the code that wrote it."""
    if signature == "t":
        return {}
    assert signature.startswith("t(")
    assert signature.endswith(")")
    first, *others = signature[2:-1].split(",")
    places = [first, *(other.removeprefix(" ") for other in others)]
    args: dict[str, Any] = {}
    for name, place in zip("abc", places, strict=False):
        if place:
            args[name] = _value(place, text_only=name == "a")
    for place in places[3:]:
        key, _, value = place.partition("=")
        args[unquote(key)] = _value(value, text_only=False)
    return args


def _value(place: str, text_only: bool) -> Any:
    text = unquote(place)
    if text_only and not text.startswith('"'):
        return text
    try:
        value = json.loads(text)
        return value if canonical(value).decode() == text else text
    except ValueError:
        return text


def _signed(args: dict[str, Any]) -> dict[str, Any]:
    signed = {name: value for name, value in args.items() if name != "u"}
    if not isinstance(signed.get("a", ""), str):
        signed["a"] = str(signed["a"])
    return signed


@given(st.lists(_ARGS, min_size=10, max_size=10))
def test_a_signature_can_be_read_back_so_that_no_two_calls_share_one(several: list[dict[str, Any]]) -> None:
    for args in map(_signed, several):
        (signature,) = signatures_for(DECLARED, args)
        assert canonical(_read_back(signature)) == canonical(args)


@given(st.lists(_ARGS, min_size=2, max_size=20))
def test_two_calls_have_one_signature_only_if_their_arguments_are_equal(several: list[dict[str, Any]]) -> None:
    by_signature: dict[tuple[str, ...], bytes] = {}
    for args in map(_signed, several):
        assert by_signature.setdefault(signatures_for(DECLARED, args), canonical(args)) == canonical(args)


@given(st.lists(_ARGS, min_size=10, max_size=10))
def test_a_signature_is_one_line_without_syntax_in_its_values(several: list[dict[str, Any]]) -> None:
    for args in map(_signed, several):
        (signature,) = signatures_for(DECLARED, args)
        assert len(signature.splitlines()) == 1
        assert sum(signature.count(character) for character in "()") in (0, 2)
        assert set(signature) & set("*?[]") == set()


def _reordered(value: Any, random: Random) -> Any:
    if isinstance(value, dict):
        pairs = [(key, _reordered(item, random)) for key, item in value.items()]
        return dict(random.sample(pairs, len(pairs)))
    return [_reordered(item, random) for item in value] if isinstance(value, list) else value


@given(_ARGS, st.integers(0, 2**32))
def test_the_order_of_keys_never_changes_a_signature(args: dict[str, Any], seed: int) -> None:
    args = _signed(args)
    other = _reordered(args, Random(seed))
    unregistered = ToolDeclaration("t", registered=False)
    for declaration in (DECLARED, ToolDeclaration("t"), unregistered):
        assert signatures_for(declaration, other) == signatures_for(declaration, args)


@given(st.integers(0, 2**32))
def test_the_order_of_keys_never_changes_the_signatures_of_a_service_call(seed: int) -> None:
    random = Random(seed)
    data = {"entities": {"lock.a": "on", "light.b": {"x": "fan.c"}}, "entity_id": ["light.d"], "z": ["cover.e"]}
    call = {"domain": "scene", "service": "apply", "target": {"entity_id": "scene.f"}, "data": data}
    assert build_signatures("ha_call_service", _reordered(call, random)) == build_signatures("ha_call_service", call)


@given(st.dictionaries(st.text(max_size=5), _JSON, max_size=4), st.text(max_size=8))
def test_whatever_passes_validation_has_no_syntax_in_its_signature(args: dict[str, Any], tool: str) -> None:
    try:
        signatures = build_signatures(tool, args)
    except ValueError:
        return
    for signature in signatures:
        assert signature.startswith(tool)
        assert sum(signature.count(character) for character in "()") == (2 if args else 0)
        assert set(signature) & set("*?[]") == set()
