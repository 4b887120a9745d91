"""What is known of a home: who is where, how old it is, and how ids are kept in order."""

from __future__ import annotations

import pytest

from agent_gate.services.home_assistant.home import Area, Device, Entity, Home, RegistryEntry
from agent_gate.services.home_assistant.reading import entity_of
from tests.gates import HandClock


def entity(entity_id: str, state: str = "on", **attributes: object) -> Entity:
    return Entity(entity_id, state, attributes, "2026-03-04T12:00:00+00:00", "2026-03-04T12:00:00+00:00")


@pytest.fixture
def home() -> Home:
    home = Home(HandClock())
    home.learn(
        areas=[
            Area("kitchen", "Küche", ("Cooking Place",), "ground", ("wet",)),
            Area("bedroom", "Bedroom", (), "upper"),
            Area("attic", "Kitchen", (), None),
        ],
        devices=[
            Device("stove", "Stove", "kitchen"),
            Device("lamp", "Lamp", "bedroom", ("cosy",)),
            Device("lost", "Lost", "an area that is no more"),
        ],
        registry=[
            RegistryEntry("sensor.stove", None, "stove"),
            RegistryEntry("light.stove", "bedroom", "stove"),
            RegistryEntry("light.lamp", None, "lamp", labels=("bright",)),
            RegistryEntry("switch.own", "kitchen"),
            RegistryEntry("switch.hidden", "kitchen", is_hidden=True, category="config"),
            RegistryEntry("switch.disabled", "kitchen", "stove", is_disabled=True),
            RegistryEntry("light.nowhere", "an area that is no more", "stove"),
            RegistryEntry("light.of_lost", None, "lost"),
            RegistryEntry("light.of_nobody", None, "a device that is no more"),
        ],
        labels={"spare": "Spare"},
        floors={"cellar": "Cellar"},
    )
    return home


@pytest.mark.parametrize(
    ("entity_id", "area_id"),
    [
        ("switch.own", "kitchen"),
        ("sensor.stove", "kitchen"),
        ("light.stove", "bedroom"),
        ("light.nowhere", None),
        ("light.of_lost", None),
        ("light.of_nobody", None),
        ("sun.sun", None),
    ],
)
def test_an_entity_is_in_its_own_area_else_in_its_device_s_and_lost_ids_lead_nowhere(
    home: Home, entity_id: str, area_id: str | None
) -> None:
    area = home.area_of(entity_id)
    assert (area.area_id if area else None) == area_id


def test_what_is_in_an_area_includes_what_its_devices_bring_but_nothing_disabled(home: Home) -> None:
    assert home.in_area("kitchen") == ["sensor.stove", "switch.hidden", "switch.own"]
    assert home.in_area("bedroom") == ["light.lamp", "light.stove"]
    assert list(home.in_area("an area that is no more")) == []


def test_a_device_has_all_its_entities_wherever_they_are(home: Home) -> None:
    assert home.of_device("stove") == ["light.nowhere", "light.stove", "sensor.stove"]


def test_a_label_reaches_through_entities_devices_and_areas(home: Home) -> None:
    assert home.with_label("bright") == ["light.lamp"]
    assert home.with_label("cosy") == ["light.lamp"]
    assert home.with_label("wet") == ["sensor.stove", "switch.hidden", "switch.own"]
    assert list(home.with_label("nobody's")) == []


def test_a_floor_has_what_its_areas_have(home: Home) -> None:
    assert home.on_floor("ground") == home.in_area("kitchen")
    assert home.on_floor("upper") == home.in_area("bedroom")


@pytest.mark.parametrize(
    ("text", "area_id"),
    [
        ("KITCHEN", "kitchen"),
        ("küche", "kitchen"),
        (" cooking place ", "kitchen"),
        ("BEDroom", "bedroom"),
        ("hall", None),
    ],
)
def test_an_area_is_found_by_id_name_or_alias_in_any_case_and_an_id_goes_first(
    home: Home, text: str, area_id: str | None
) -> None:
    area = home.find_area(text)
    assert (area.area_id if area else None) == area_id


def test_labels_and_floors_are_known_from_their_registries_or_because_something_has_them(home: Home) -> None:
    assert [home.knows_label(label) for label in ("spare", "wet", "cosy", "bright", "x")] == [True] * 4 + [False]
    assert [home.knows_floor(floor) for floor in ("cellar", "ground", "x")] == [True, True, False]
    assert (home.knows_area("attic"), home.knows_area("Kitchen")) == (True, False)
    assert (home.knows_device("lost"), home.knows_device("a device that is no more")) == (True, False)


def test_a_registry_that_is_read_again_replaces_the_old_one_and_leaves_the_others(home: Home) -> None:
    home.learn(devices=[Device("stove", "Stove", "attic")])
    assert home.in_area("attic") == ["sensor.stove"]
    assert home.in_area("kitchen") == ["switch.hidden", "switch.own"]
    assert not home.knows_device("lamp")


def test_ids_stay_sorted_while_entities_come_change_and_go() -> None:
    home = Home(HandClock())
    home.replace_entities([entity("light.b"), entity("light.c")])
    before = home.sorted_ids()
    home.put(entity("light.b", "off"))
    assert home.sorted_ids() is before
    home.put(entity("light.a"))
    assert home.sorted_ids() == ["light.a", "light.b", "light.c"]
    home.drop("light.c")
    home.drop("light.unknown")
    assert home.sorted_ids() == ["light.a", "light.b"]
    assert home.entity("light.b") == entity("light.b", "off")
    home.replace_entities([entity("light.z")])
    assert (home.sorted_ids(), home.entity("light.a")) == (["light.z"], None)


def test_it_is_ready_once_read_and_as_old_as_the_last_moment_it_was_in_step() -> None:
    clock = HandClock()
    home = Home(clock)
    assert (home.is_ready, home.is_live) == (False, False)
    home.in_step(live=True)
    clock.advance(50)
    assert (home.is_ready, home.is_live, home.age_s) == (True, True, 0.0)
    home.out_of_step()
    clock.advance(7)
    assert (home.is_ready, home.is_live, home.age_s) == (True, False, 7.0)
    home.in_step(live=False)
    clock.advance(2)
    home.out_of_step()
    assert (home.is_live, home.age_s) == (False, 2.0)


def test_an_entity_is_called_by_its_friendly_name_else_by_its_id() -> None:
    assert entity("light.a", friendly_name="Anna's lamp").name == "Anna's lamp"
    assert [entity("light.a", friendly_name=odd).name for odd in ("", None, 5)] == ["light.a"] * 3
    assert entity("light.a").domain == "light"


def test_tokens_that_open_pictures_do_not_get_into_the_cache() -> None:
    entity = entity_of(
        {
            "entity_id": "camera.door",
            "state": "idle",
            "attributes": {"access_token": "abc", "entity_picture": "/api/camera_proxy/camera.door?token=abc", "x": 1},
        }
    )
    assert entity is not None
    assert entity.attributes == {"entity_picture": "/api/camera_proxy/camera.door", "x": 1}


def test_nor_does_the_token_of_a_player_s_picture_that_is_also_to_be_had_elsewhere() -> None:
    at_home = "/api/media_player_proxy/media_player.radio"
    pictures = {
        "entity_picture": "https://example.com/cover.png",
        "entity_picture_local": f"{at_home}?token=abc&cache=1",
    }
    entity = entity_of({"entity_id": "media_player.radio", "state": "playing", "attributes": pictures})
    assert entity is not None
    assert entity.attributes == {"entity_picture": "https://example.com/cover.png", "entity_picture_local": at_home}
