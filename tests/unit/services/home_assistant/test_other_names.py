"""Entities that a service names by another key, or in words of its own: they are reached all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.bounds import SIGNATURES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.home import Device, Home, RegistryEntry, ServiceInfo
from agent_gate.services.home_assistant.targets import Reach, reach_of
from tests.unit.services.home_assistant.homes import a_home, entity

ENTITIES = ("light.bed", "lock.door", "camera.porch", "sensor.flap", "odd_things.cellar", "device_tracker.anna")


def a_house(*services: ServiceInfo, registry: tuple[RegistryEntry, ...] = ()) -> Home:
    """With a lock in a group, and the services that a test needs."""
    home = a_home(
        *ENTITIES,
        entity("group.doors", entity_id=["lock.door"]),
        entity("scene.leave", entity_id=["lock.door"]),
        "zone.home",
        devices=[Device("d1", "Door")],
        registry=registry or (RegistryEntry("lock.door", device_id="d1", config_entry_id="c1"),),
        services="group.set group.remove scene.create device_tracker.see recorder.purge_entities script.leave"
        " script.turn_on homeassistant.reload_config_entry homeassistant.set_location homeassistant.restart"
        " media_player.play_media",
    )
    home.learn(services=[*home.services.values(), *services])
    return home


def described(name: str, fields: Mapping[str, Any], *, target: Mapping[str, Any] | None = None) -> ServiceInfo:
    domain, _, service = name.partition(".")
    return ServiceInfo(domain, service, "", "", fields, target)


def reach(home: Home, service: str, **args: Any) -> Reach:
    domain, _, name = service.partition(".")
    return reach_of(home, {"domain": domain, "service": name, **args})


@pytest.mark.parametrize(
    ("service", "data", "targets"),
    [
        ("group.set", {"object_id": "doors"}, ["group.doors", "lock.door"]),
        ("group.set", {"object_id": "new", "entities": ["light.bed"]}, ["group.new", "light.bed"]),
        ("group.set", {"object_id": 7, "add_entities": ["light.bed"]}, ["group.7", "light.bed"]),
        ("group.remove", {"object_id": "doors"}, ["group.doors", "lock.door"]),
        ("scene.create", {"scene_id": "leave"}, ["lock.door", "scene.leave"]),
        ("scene.create", {"scene_id": "new", "snapshot_entities": ["light.bed"]}, ["light.bed", "scene.new"]),
        ("device_tracker.see", {"dev_id": "anna"}, ["device_tracker.anna"]),
        ("device_tracker.see", {"dev_id": "ANNA"}, ["device_tracker.anna"]),
        ("device_tracker.see", {"dev_id": "new"}, ["device_tracker.new"]),
        ("device_tracker.see", {"mac": "00:11:22:33:44:55"}, ["device_tracker.anna"]),
        ("homeassistant.reload_config_entry", {"entry_id": "c1"}, ["lock.door"]),
        ("homeassistant.reload_config_entry", {"entry_id": "brought_nothing"}, []),
        ("recorder.purge_entities", {"domains": ["lock", "zone"]}, ["lock.door", "zone.home"]),
        ("recorder.purge_entities", {"entity_globs": "lo?k.*"}, ["lock.door"]),
        ("media_player.play_media", {"media_content_id": "media-source://camera/camera.porch"}, ["camera.porch"]),
        ("media_player.play_media", {"media_content_id": "/api/camera_proxy/camera%2Eporch?x=1"}, ["camera.porch"]),
        ("media_player.play_media", {"media_content_id": "odd_things.cellar"}, ["odd_things.cellar"]),
        ("media_player.play_media", {"media_content_id": "this/light.bed/is/no/address"}, []),
    ],
)
def test_it_is_judged_by_the_entity_that_it_reaches(service: str, data: dict[str, Any], targets: list[str]) -> None:
    found = reach(a_house(), service, data=data)
    assert found.targets == targets
    assert {f"ha_call_service({service}, {one})" for one in targets} <= set(found.signatures)


@pytest.mark.parametrize("value", ["", "Ünder", "a b", "a.b", True, 1.5, ["doors"], {"doors": 1}, "{{ x }}", "a,b"])
def test_a_name_that_no_server_would_take_is_refused(value: Any) -> None:
    with pytest.raises(ToolError, match="`object_id` is not a name"):
        reach(a_house(), "group.remove", data={"object_id": value})


def test_a_group_that_is_to_be_removed_must_be_there() -> None:
    with pytest.raises(ToolError, match=r"group\.door"):
        reach(a_house(), "group.remove", data={"object_id": "door"})


@pytest.mark.parametrize(
    ("service", "data", "alias"),
    [
        ("group.remove", {"object_id": "doors"}, "ha_call_service(group.remove)"),
        ("device_tracker.see", {"mac": "x"}, "ha_call_service(device_tracker.see)"),
        ("recorder.purge_entities", {"domains": "lock"}, "ha_call_service(recorder.purge_entities)"),
        ("script.leave", {}, "ha_call_service(script.turn_on, script.leave)"),
        ("homeassistant.set_location", {}, "ha_call_service(zone.set_location, zone.home)"),
    ],
)
def test_a_rule_that_denies_it_by_an_older_or_another_name_still_holds(
    service: str, data: dict[str, Any], alias: str
) -> None:
    assert alias in reach(a_house(), service, data=data).aliases


def test_ids_by_another_key_have_no_other_name() -> None:
    joined = described("snapcast.join", {"master": {"selector": {"entity": None}}})
    assert reach(a_house(joined), "snapcast.join", data={"master": "lock.door"}).aliases == ()


SELECTORS = {
    "entity": ("lock.door", ["lock.door"]),
    "device": ("d1", ["d1"]),
    "config_entry": ("c1", "c1"),
    "target": ({"entity_id": "lock.door"}, {"device_id": ["d1"]}),
}


@given(
    kind=st.sampled_from(sorted(SELECTORS)),
    which=st.integers(0, 1),
    key=st.from_regex(r"\A[a-z]{1,8}\Z"),
    wraps=st.lists(st.sampled_from(["section", "object"]), max_size=3),
    options=st.sampled_from([None, {}, {"multiple": True}, {"domain": "light"}]),
)
def test_whatever_field_the_server_describes_as_naming_something_is_followed(
    kind: str, which: int, key: str, wraps: list[str], options: Any
) -> None:
    """By whichever key, in sections and in objects that hold fields again."""
    fields: dict[str, Any] = {key: {"selector": {kind: options}}}
    data: Any = {key: SELECTORS[kind][which]}
    for wrap in wraps:
        if wrap == "section":
            fields = {"advanced": {"collapsed": True, "fields": fields}}
        else:
            fields = {"inside": {"selector": {"object": {"multiple": True, "fields": fields}}}}
            data = {"inside": [data]}
    found = reach(a_house(described("odd.act", fields)), "odd.act", data=data)
    assert found.targets == ["lock.door"]
    assert "ha_call_service(lock.act, lock.door)" in found.signatures


@given(fields=st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["fields", "selector", "entity", "object", "x"]), inner, max_size=3),
    max_leaves=20,
))  # fmt: skip
def test_no_description_however_odd_breaks_the_judging(fields: Any) -> None:
    home = a_house(described("odd.act", fields if isinstance(fields, dict) else {}))
    assert reach(home, "odd.act", data={"x": "lock.door"}).targets == ["lock.door"]


def test_what_a_described_field_names_must_be_there() -> None:
    home = a_house(described("camera.play_stream", {"media_player": {"selector": {"entity": {}}}}))
    with pytest.raises(ToolError, match=r"media_player\.nope"):
        reach(home, "camera.play_stream", data={"media_player": "media_player.nope"})


FLAP = described("surepetcare.set_lock_state", {"flap_id": {"selector": {"text": None}}})
OF_THE_FLAP = tuple(RegistryEntry(one, platform="surepetcare") for one in ("lock.door", "sensor.flap"))
LOCK_ALIASES = (
    "ha_call_service(surepetcare.set_lock_state, lock.door)",
    "ha_call_service(lock.set_lock_state, lock.door)",
)


def test_a_service_that_names_things_in_its_own_words_may_reach_all_that_its_integration_brought() -> None:
    found = reach(a_house(FLAP, registry=OF_THE_FLAP), "surepetcare.set_lock_state", data={"flap_id": 123})
    assert found.signatures == ("ha_call_service(surepetcare.set_lock_state)",)
    assert found.aliases == LOCK_ALIASES
    assert (found.is_expanded, found.names_places) == (True, True)


def test_naming_a_harmless_entity_beside_does_not_hide_what_such_a_service_may_reach() -> None:
    data = {"flap_id": 123, "entity_id": "light.bed"}
    found = reach(a_house(FLAP, registry=OF_THE_FLAP), "surepetcare.set_lock_state", data=data)
    assert set(LOCK_ALIASES) <= set(found.aliases)


def test_a_service_that_says_whom_it_acts_on_reaches_nobody_else() -> None:
    target = replace(FLAP, target={"entity": [{}]})
    found = reach(a_house(target, registry=OF_THE_FLAP), "surepetcare.set_lock_state", entity_id="light.bed")
    assert (found.targets, found.aliases) == (["light.bed"], ())


@pytest.mark.parametrize("service", ["homeassistant.restart", "script.turn_on", "surepetcare.reload"])
def test_others_are_known_by_their_own_name_alone(service: str) -> None:
    reload, brought = (
        described("surepetcare.reload", {}),
        (*OF_THE_FLAP, RegistryEntry("scene.leave", platform="homeassistant")),
    )
    assert reach(a_house(reload, registry=brought), service).aliases == ()


def test_more_than_can_be_judged_is_refused() -> None:
    many = tuple(RegistryEntry(f"lock.l{number}", platform="surepetcare") for number in range(SIGNATURES_MAX))
    with pytest.raises(ToolError, match="can reach more than"):
        reach(a_house(FLAP, registry=many), "surepetcare.set_lock_state", data={"flap_id": 1})
