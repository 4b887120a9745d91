"""Targets: every entity that a call can reach, and nothing that the home does not have."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.bounds import SIGNATURES_MAX
from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.home import Area, Device, Home, RegistryEntry
from agent_gate.services.home_assistant.targets import reach_of
from tests.unit.services.home_assistant.homes import a_home, entity

HOME = a_home(
    "light.kitchen",
    "light.sink",
    "light.bed",
    "light.strip",
    "lock.door",
    "switch.kettle",
    entity("light.all", entity_id=["light.kitchen", "light.bed"]),
    entity("group.downstairs", entity_id=["light.kitchen", "lock.door"]),
    entity("group.house", entity_id=["group.downstairs", "light.bed", "group.house"]),
    entity("scene.leave", entity_id=["lock.door", "light.kitchen"]),
    entity("scene.bridge"),
    entity("media_player.radio", group_members=["media_player.radio", "media_player.tv"]),
    "media_player.tv",
    areas=[
        Area("kitchen", "Kitchen", ("Cooking",), "ground", ("cosy",)),
        Area("bedroom", "Bedroom"),
        Area("loft", "Loft"),
    ],
    devices=[Device("d1", "Strip", "kitchen"), Device("d2", "Door", None, ("safe",)), Device("d3", "Empty")],
    registry=[
        RegistryEntry("light.kitchen", "kitchen"),
        RegistryEntry("switch.kettle", "kitchen"),
        RegistryEntry("light.strip", None, "d1"),
        RegistryEntry("lock.door", "kitchen", "d2"),
        RegistryEntry("light.bed", "bedroom", labels=("cosy",)),
        RegistryEntry("scene.leave", "bedroom"),
        RegistryEntry("light.gone", "kitchen"),
    ],
    labels={"unused": "Unused"},
)


def reached(domain: str, service: str, home: Home = HOME, **args: Any) -> list[str]:
    return reach_of(home, {"domain": domain, "service": service, **args}).targets


@pytest.mark.parametrize(
    ("args", "targets"),
    [
        ({"entity_id": "light.kitchen"}, ["light.kitchen"]),
        ({"entity_id": ["light.sink", "light.kitchen", "light.sink"]}, ["light.kitchen", "light.sink"]),
        ({"entity_id": "light.sink", "target": {"entity_id": "light.bed"}}, ["light.bed", "light.sink"]),
        ({"entity_id": "light.sink", "data": {"entity_id": ["light.bed"]}}, ["light.bed", "light.sink"]),
        ({"entity_id": "lock.door"}, ["lock.door"]),
        ({"target": {"area_id": "kitchen"}}, ["light.kitchen", "light.strip"]),
        ({"target": {"area_id": ["kitchen", "bedroom"]}}, ["light.bed", "light.kitchen", "light.strip"]),
        ({"target": {"area_id": ["loft", "bedroom"]}}, ["light.bed"]),
        ({"data": {"area_id": "bedroom"}, "entity_id": "light.sink"}, ["light.bed", "light.sink"]),
        ({"area_id": "bedroom"}, ["light.bed"]),
        ({"service_data": {"area_id": "bedroom"}}, ["light.bed"]),
        ({"target": {"device_id": "d1"}}, ["light.strip"]),
        ({"target": {"floor_id": "ground"}}, ["light.kitchen", "light.strip"]),
        ({"target": {"label_id": "cosy"}}, ["light.bed", "light.kitchen", "light.strip"]),
        ({"entity_id": "all"}, ["light.all", "light.bed", "light.kitchen", "light.sink", "light.strip"]),
        ({"entity_id": "light.all"}, ["light.all", "light.bed", "light.kitchen"]),
        ({"entity_id": "group.downstairs"}, ["group.downstairs", "light.kitchen", "lock.door"]),
        ({"entity_id": "group.house"}, ["group.downstairs", "group.house", "light.bed", "light.kitchen", "lock.door"]),
        ({"data": {"brightness_pct": 40, "note": "light.bed"}, "entity_id": "light.sink"}, ["light.bed", "light.sink"]),
        ({"data": {"note": "light.nope"}, "entity_id": "light.sink"}, ["light.sink"]),
        ({}, []),
        ({"data": {"note": "event.mp3"}}, []),
    ],
)
def test_a_light_s_service_reaches_what_it_names_and_what_that_passes_it_on_to(
    args: dict[str, Any], targets: list[str]
) -> None:
    assert reached("light", "turn_on", **args) == targets


@pytest.mark.parametrize(
    ("domain", "service", "args", "targets"),
    [
        (
            "homeassistant",
            "turn_off",
            {"target": {"area_id": "kitchen"}},
            ["light.kitchen", "light.strip", "lock.door", "switch.kettle"],
        ),
        ("homeassistant", "turn_off", {"target": {"device_id": "d2"}}, ["lock.door"]),
        ("homeassistant", "turn_off", {"target": {"label_id": "safe"}}, ["lock.door"]),
        ("homeassistant", "turn_on", {"entity_id": "scene.leave"}, ["light.kitchen", "lock.door", "scene.leave"]),
        (
            "zwave_js",
            "refresh_value",
            {"target": {"area_id": "kitchen"}},
            ["light.kitchen", "light.strip", "lock.door", "switch.kettle"],
        ),
        ("scene", "turn_on", {"entity_id": "scene.leave"}, ["light.kitchen", "lock.door", "scene.leave"]),
        ("scene", "turn_on", {"entity_id": "scene.bridge"}, ["scene.bridge"]),
        ("scene", "turn_on", {"target": {"area_id": "bedroom"}}, ["light.kitchen", "lock.door", "scene.leave"]),
        ("scene", "turn_on", {"entity_id": "all"}, ["light.kitchen", "lock.door", "scene.bridge", "scene.leave"]),
        ("scene", "apply", {"data": {"entities": {"lock.door": "unlocked"}}}, ["lock.door"]),
        (
            "scene",
            "create",
            {"data": {"scene_id": "x", "entities": {"light.bed": {"state": "on"}}, "snapshot_entities": ["lock.door"]}},
            ["light.bed", "lock.door", "scene.x"],
        ),
        (
            "media_player",
            "join",
            {"entity_id": "media_player.tv", "data": {"group_members": ["media_player.radio"]}},
            ["media_player.radio", "media_player.tv"],
        ),
        ("media_player", "join", {"entity_id": "media_player.radio"}, ["media_player.radio", "media_player.tv"]),
        ("tts", "speak", {"data": {"media_player_entity_id": "media_player.tv"}}, ["media_player.tv"]),
        ("tts", "speak", {"data": {"media_player_entity_id": "all"}}, ["media_player.radio", "media_player.tv"]),
        ("tts", "speak", {"data": {"entity_id": "all"}}, ["media_player.radio", "media_player.tv"]),
        ("notify", "phone", {"data": {"message": "lock.door is open, light.bed is on"}}, []),
    ],
)
def test_other_services_reach_what_they_act_on(
    domain: str, service: str, args: dict[str, Any], targets: list[str]
) -> None:
    assert reached(domain, service, **args) == targets


def test_each_target_has_a_signature_and_a_second_one_under_its_own_domain() -> None:
    reach = reach_of(HOME, {"domain": "scene", "service": "turn_on", "entity_id": "scene.leave"})
    assert (reach.signatures, reach.service, reach.is_expanded) == (
        (
            "ha_call_service(scene.turn_on, scene.leave)",
            "ha_call_service(scene.turn_on, lock.door)",
            "ha_call_service(lock.turn_on, lock.door)",
            "ha_call_service(scene.turn_on, light.kitchen)",
            "ha_call_service(light.turn_on, light.kitchen)",
        ),
        "scene.turn_on",
        True,
    )


@pytest.mark.parametrize(
    ("args", "is_expanded"),
    [
        ({"entity_id": ["light.kitchen", "light.bed"]}, False),
        ({"entity_id": ["light.all", "light.kitchen", "light.bed"]}, True),
        ({"entity_id": ["light.kitchen", "light.strip"], "target": {"area_id": "kitchen"}}, True),
        ({"entity_id": "all"}, True),
    ],
)
def test_naming_all_that_is_behind_a_group_or_a_place_does_not_make_it_a_matter_of_names(
    args: dict[str, Any], is_expanded: bool
) -> None:
    assert reach_of(HOME, {"domain": "light", "service": "turn_on", **args}).is_expanded is is_expanded


def test_a_player_that_stands_for_another_passes_calls_on_to_it() -> None:
    home = a_home("media_player.tv", entity("media_player.any", active_child="media_player.tv"))
    assert reached("homeassistant", "turn_off", home, entity_id="media_player.any") == [
        "media_player.any",
        "media_player.tv",
    ]


def test_a_call_without_a_target_has_its_bare_signature() -> None:
    reach = reach_of(HOME, {"domain": "notify", "service": "phone"})
    assert (reach.signatures, reach.is_expanded) == (("ha_call_service(notify.phone)",), False)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"entity_id": "light.kitchn"}, "did you mean `light.kitchen`"),
        ({"entity_id": ["light.bed", "light.nope"]}, "`light.nope`"),
        ({"data": {"entity_id": "light.nope"}}, "`light.nope`"),
        ({"entity_id": "light.gone"}, "`light.gone`"),
        ({"target": {"area_id": "kitchn"}}, "no area with the id `kitchn`; did you mean `kitchen`?"),
        ({"target": {"area_id": "Cooking"}}, "no area with the id `Cooking`; did you mean `kitchen`?"),
        ({"target": {"area_id": ["kitchen", "attic"]}}, "no area with the id `attic`; see `ha_list_areas`"),
        ({"target": {"area_id": "none"}}, "no area with the id `none`"),
        ({"target": {"area_id": "loft"}}, "`light.turn_on` reaches nothing by area_id `loft`"),
        ({"target": {"device_id": "d3"}}, "`light.turn_on` reaches nothing by device_id `d3`"),
        ({"target": {"label_id": "unused"}}, "`light.turn_on` reaches nothing by label_id `unused`"),
        ({"target": {"device_id": "d9"}}, "no device with the id `d9`"),
        ({"target": {"floor_id": "grund"}}, "no floor with the id `grund`"),
        ({"target": {"label_id": "unusd"}}, "no label with the id `unusd`; did you mean `unused`?"),
        ({"target": {"area_id": "{{ 'kitchen' }}"}}, "`area_id` holds a template"),
        ({"target": {"area_id": []}}, "`area_id` is not an id or a list of them"),
        ({"target": {"area_id": None}}, "`area_id` is not an id or a list of them"),
        ({"target": {"area_id": ["kitchen", 1]}}, "`area_id` is not an id or a list of them"),
        ({"target": {"zone_id": "x"}}, "`target` has no field `zone_id`"),
        ({"entity_id": "light.kitchen, light.bed"}, "`entity_id` is not an entity id"),
        ({"entity_id": "Light.Kitchen"}, "`entity_id` is not an entity id"),
        ({"service": "turn_om"}, "no service `light.turn_om`; did you mean `light.turn_on`"),
        ({"domain": "lihgt"}, "no service `lihgt.turn_on`; did you mean `light.turn_on`"),
        ({"domain": "Light"}, "`domain` is not a domain"),
    ],
)
def test_what_the_home_does_not_have_is_a_mistake_that_can_be_mended(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError) as refused:
        reach_of(HOME, {"domain": "light", "service": "turn_on", **args})
    assert refused.value.code == 2002
    assert problem in str(refused.value)


def test_all_of_a_kind_that_the_home_lacks_reaches_nothing() -> None:
    with pytest.raises(ToolError, match=r"`light\.turn_on` reaches nothing by `all`"):
        reached("light", "turn_on", a_home("lock.door"), entity_id="all")


def test_more_targets_than_can_be_judged_are_refused() -> None:
    ids = [f"light.l{number}" for number in range(SIGNATURES_MAX)]
    assert len(reached("light", "turn_on", a_home(*ids), entity_id="all")) == SIGNATURES_MAX
    for home, entity_id in (
        (a_home(*ids, "light.more"), "all"),
        (a_home(*ids, entity("light.group", entity_id=ids)), "light.group"),
    ):
        with pytest.raises(ToolError, match=f"more than {SIGNATURES_MAX} targets") as refused:
            reached("light", "turn_on", home, entity_id=entity_id)
        assert refused.value.code == 2002


def test_groups_nested_very_deep_are_still_followed() -> None:
    chain = [entity(f"light.l{number}", entity_id=[f"light.l{number + 1}"]) for number in range(900)]
    assert "light.l900" in reached("light", "turn_on", a_home(*chain), entity_id="light.l0")


@pytest.mark.parametrize("members", [7, None, {"light.bed": 1}, [1, None, "not an id", "*", "light.x) or y"], "*"])
def test_members_that_are_no_ids_are_passed_over(members: Any) -> None:
    assert reached("light", "turn_on", a_home(entity("light.odd", entity_id=members)), entity_id="light.odd") == [
        "light.odd"
    ]


def test_members_that_are_gone_are_judged_too_because_they_may_come_back() -> None:
    home = a_home(entity("light.all", entity_id=["light.gone"]))
    assert reached("light", "turn_on", home, entity_id="light.all") == ["light.all", "light.gone"]


def test_while_the_home_is_out_of_reach_a_text_that_looks_like_an_id_counts_as_one() -> None:
    home = a_home("light.bed", live=False)
    assert reached("light", "turn_on", home, entity_id="light.bed", data={"x": "lock.new"}) == ["light.bed", "lock.new"]
