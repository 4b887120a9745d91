"""What a call of a service names, and which calls set off more than can be named."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.tools.home_assistant.reach import BEYOND, reaches_beyond
from agent_gate.tools.home_assistant.signatures import Named, named_in, service_call


@pytest.mark.parametrize("domain", BEYOND)
def test_what_scripts_and_commands_reach_cannot_be_known(domain: str) -> None:
    assert reaches_beyond([f"ha_call_service({domain}.anything)"])
    assert reaches_beyond(["ha_call_service(light.turn_on, light.a)", f"ha_call_service({domain}.turn_on, {domain}.a)"])


def test_nor_can_what_a_sentence_asks_for() -> None:
    assert reaches_beyond(["ha_call_service(conversation.process)"])


def test_a_script_that_is_reached_by_a_generic_service_counts_as_one() -> None:
    call = service_call({"domain": "homeassistant", "service": "turn_on", "entity_id": "script.a"})
    assert reaches_beyond(call.signatures)


@pytest.mark.parametrize(
    "signatures",
    [
        (),
        ("ha_call_service(light.turn_on, light.script)",),
        ("ha_call_service(homeassistant.turn_on, light.a)", "ha_call_service(light.turn_on, light.a)"),
        ("ha_call_service(scripts.turn_on)",),
        ("ha_call_service(my_script.turn_on)",),
        ("ha_call_service(script)",),
        ("ha_fire_event(script.turn_on)",),
        ("ha_get_state(script.a)",),
        ("fs.read(ha_call_service%28script.a%29)",),
    ],
)
def test_other_calls_reach_what_their_signatures_say(signatures: tuple[str, ...]) -> None:
    assert not reaches_beyond(signatures)


@pytest.mark.parametrize(
    ("args", "entities", "sure", "places"),
    [
        ({"entity_id": "light.a"}, ("light.a",), {"light.a"}, ()),
        ({"entity_id": ["light.b", "light.a"], "data": {"x": "Fan.C"}}, ("light.b", "light.a", "fan.c"), None, ()),
        ({"data": {"x": "fan.c", "entity_id": "fan.d"}}, ("fan.d", "fan.c"), {"fan.d"}, ()),
        ({"data": {"entities": {"lock.a": {"x": "fan.c"}}}}, ("lock.a", "fan.c"), {"lock.a"}, ()),
        ({"target": {"area_id": ["a", "b"]}}, (), set(), (("area_id", "a"), ("area_id", "b"))),
        ({"data": {"device_id": "d"}, "area_id": "a"}, (), set(), (("area_id", "a"), ("device_id", "d"))),
        ({"data": {"target": {"area_id": "a"}}}, (), set(), ()),
    ],
)
def test_what_the_arguments_name_is_found_wherever_it_stands(
    args: dict[str, Any], entities: tuple[str, ...], sure: set[str] | None, places: tuple[tuple[str, str], ...]
) -> None:
    wanted = frozenset({"light.b", "light.a"} if sure is None else sure)
    assert named_in({"domain": "light", "service": "turn_on", **args}) == Named(
        "light", "turn_on", entities, wanted, places
    )


@pytest.mark.parametrize("key", ["entities", "entity_ids", "snapshot_entities", "group_members"])
@pytest.mark.parametrize("value", [50, 1.5, True, None, [50], [[50]], {}])
def test_only_texts_and_lists_of_texts_are_taken_for_ids_of_entities(key: str, value: Any) -> None:
    call = service_call({"domain": "burst", "service": "run", "data": {key: value}})
    assert call.signatures == ("ha_call_service(burst.run)",)
    call = service_call({"domain": "burst", "service": "run", "data": {key: [value, "lock.a"]}})
    assert call.entities == ("lock.a",)
