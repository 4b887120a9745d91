"""What is answered from memory: states, entities, areas and services."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.bounds import HOME_SERVICES_SHOWN_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.home import Area, Device, Entity, Home, RegistryEntry, ServiceInfo
from agent_gate.services.home_assistant.listing import Listing
from tests.gates import HandClock

AT = "2026-03-04T12:00:00.000000+00:00"


def entity(entity_id: str, state: str = "on", **attributes: Any) -> Entity:
    return Entity(entity_id, state, attributes, AT, AT)


def furnished(clock: HandClock | None = None) -> Home:
    home = Home(clock or HandClock())
    for each in (
        entity("light.sink", friendly_name="Sink"),
        entity("light.ceiling", "off"),
        entity("lock.front_door", "locked", friendly_name="Front door"),
        entity("light_group.all", "on"),
        entity("sensor.oven", "180", unit_of_measurement="°C"),
    ):
        home.put(each)
    home.learn(
        areas=[Area("kueche", "Kitchen", ("Cooking place",)), Area("hall", "Hall"), Area("attic", "attic")],
        devices=[Device("oven", "Oven", "kueche")],
        registry=[
            RegistryEntry("light.sink", "kueche"),
            RegistryEntry("sensor.oven", None, "oven"),
            RegistryEntry("lock.front_door", "hall", "oven"),
            RegistryEntry("light.ceiling", "torn_down"),
            RegistryEntry("sensor.disabled", "kueche", is_disabled=True),
        ],
        services=[
            ServiceInfo("light", "turn_on", "Turn on", "Turns it on", {"brightness_pct": {}}, {"entity": []}),
            ServiceInfo("light", "turn_off", "Turn off", "Turns it off", {}, {"entity": []}),
            ServiceInfo("weather", "get_forecasts", "Forecasts", "Tells them", {}, None, "only"),
        ],
    )
    home.in_step(live=True)
    return home


@pytest.fixture
def listing() -> Listing:
    return Listing(furnished())


def ids(answer: Any) -> list[str]:
    return [row["entity_id"] for row in answer["entities"]]


def refused(action: Any, args: dict[str, Any]) -> ToolError:
    with pytest.raises(ToolError) as raised:
        action(args)
    return raised.value


def test_a_state_has_its_attributes_its_times_its_area_and_its_freshness(listing: Listing) -> None:
    assert listing.state({"entity_id": "sensor.oven"}) == {
        "entity_id": "sensor.oven",
        "state": "180",
        "attributes": {"unit_of_measurement": "°C"},
        "last_changed": AT,
        "last_updated": AT,
        "area_name": "Kitchen",
        "live": True,
        "age_s": 0,
    }


def test_an_entity_has_its_own_area_before_its_devices_and_none_where_it_was_torn_down(listing: Listing) -> None:
    areas = {row["entity_id"]: row["area_name"] for row in listing.states({})["entities"]}
    assert areas == {
        "light.ceiling": None,
        "light.sink": "Kitchen",
        "light_group.all": None,
        "lock.front_door": "Hall",
        "sensor.oven": "Kitchen",
    }


def test_names_of_areas_are_those_of_now(listing: Listing) -> None:
    listing.state({"entity_id": "sensor.oven"})
    listing._home.learn(areas=[Area("kueche", "Bakery")])
    assert listing.state({"entity_id": "sensor.oven"})["area_name"] == "Bakery"
    listing._home.learn(devices=[])
    assert listing.state({"entity_id": "sensor.oven"})["area_name"] is None


def test_an_unknown_entity_is_an_error_that_names_the_nearest_of_its_domain(listing: Listing) -> None:
    error = refused(listing.state, {"entity_id": "light.cieling"})
    assert (error.code, error.problem.detail) == (2002, "there is no entity `light.cieling` in the home")
    assert error.problem.suggestion == "did you mean `light.ceiling`?"


def test_an_unknown_entity_does_not_tell_of_other_domains(listing: Listing) -> None:
    error = refused(listing.state, {"entity_id": "light.front_door"})
    assert error.problem.suggestion == "see `ha_list_entities`"


def test_an_entity_of_an_unknown_domain_gets_the_nearest_domain(listing: Listing) -> None:
    error = refused(listing.state, {"entity_id": "ligth.sink"})
    assert "did you mean `light`" in error.problem.suggestion


def test_all_entities_are_listed_in_short_and_sorted(listing: Listing) -> None:
    answer = listing.entities({})
    assert ids(answer) == ["light.ceiling", "light.sink", "light_group.all", "lock.front_door", "sensor.oven"]
    assert answer["entities"][1] == {
        "entity_id": "light.sink",
        "state": "on",
        "friendly_name": "Sink",
        "area_name": "Kitchen",
        "domain": "light",
        "last_updated": AT,
    }
    assert (answer["count"], answer["live"], answer["age_s"]) == (5, True, 0)


def test_a_domain_is_the_whole_of_what_stands_before_the_dot(listing: Listing) -> None:
    assert ids(listing.entities({"domain": "light"})) == ["light.ceiling", "light.sink"]
    assert ids(listing.entities({"domain": "light_group"})) == ["light_group.all"]


@pytest.mark.parametrize("area", ["Kitchen", "kitchen", "KUECHE", "cooking place", " Kitchen "])
def test_an_area_is_found_by_name_id_or_alias_in_any_case(listing: Listing, area: str) -> None:
    assert ids(listing.entities({"area": area})) == ["light.sink", "sensor.oven"]


def test_both_filters_must_fit(listing: Listing) -> None:
    assert ids(listing.entities({"area": "Kitchen", "domain": "light"})) == ["light.sink"]
    assert ids(listing.entities({"area": "attic", "domain": "light"})) == []


@pytest.mark.parametrize(
    ("args", "detail", "suggestion"),
    [
        ({"area": "Kitchn"}, "there is no area `Kitchn` in the home", "did you mean `Kitchen`?"),
        ({"area": "Moon"}, "there is no area `Moon` in the home", "see `ha_list_areas`"),
        ({"domain": "lights"}, "there is no entity of domain `lights` in the home", "did you mean `light`?"),
        ({"area": "a\nb"}, "there is no area `a⟨U+000A⟩b` in the home", "see `ha_list_areas`"),
    ],
)
def test_a_filter_that_names_nothing_is_an_error(
    listing: Listing, args: dict[str, Any], detail: str, suggestion: str
) -> None:
    error = refused(listing.entities, args)
    assert (error.code, error.problem.detail, error.problem.suggestion) == (2002, detail, suggestion)


def test_areas_are_sorted_by_name_whatever_its_case(listing: Listing) -> None:
    answer = listing.areas({})
    assert answer["areas"] == [
        {"area_id": "attic", "name": "attic", "aliases": []},
        {"area_id": "hall", "name": "Hall", "aliases": []},
        {"area_id": "kueche", "name": "Kitchen", "aliases": ["Cooking place"]},
    ]
    assert answer["count"] == 3


def test_services_of_a_domain_tell_their_fields_and_all_services_only_what_they_do(listing: Listing) -> None:
    answer = listing.services({"domain": "light"})
    assert [row["service"] for row in answer["services"]] == ["turn_off", "turn_on"]
    assert answer["services"][1] == {
        "domain": "light",
        "service": "turn_on",
        "name": "Turn on",
        "description": "Turns it on",
        "fields": {"brightness_pct": {}},
        "target": {"entity": []},
        "response": "none",
    }
    everything = listing.services({})
    assert [f"{row['domain']}.{row['service']}" for row in everything["services"]] == [
        "light.turn_off", "light.turn_on", "weather.get_forecasts",
    ]  # fmt: skip
    assert set(everything["services"][0]) == {"domain", "service", "name", "description"}
    assert everything["cut_off"] is False


def test_services_of_an_unknown_domain_are_an_error(listing: Listing) -> None:
    error = refused(listing.services, {"domain": "lihgt"})
    assert (error.code, error.problem.suggestion) == (2002, "did you mean `light`?")


def test_a_list_of_services_is_bounded_and_says_so(listing: Listing) -> None:
    many = [ServiceInfo("x", f"s{number:05}", "", "", {}, None) for number in range(HOME_SERVICES_SHOWN_MAX + 1)]
    listing._home.learn(services=many)
    answer = listing.services({})
    assert (answer["count"], answer["cut_off"]) == (HOME_SERVICES_SHOWN_MAX, True)


def test_an_answer_tells_how_far_the_home_is_behind() -> None:
    clock = HandClock()
    home = furnished(clock)
    home.out_of_step()
    clock.advance(12.34)
    listing = Listing(home)
    for answer in (listing.state({"entity_id": "light.sink"}), listing.entities({}), listing.areas({})):
        assert (answer["live"], answer["age_s"]) == (False, 13)


@pytest.mark.parametrize("name", ["state", "states", "entities", "areas", "services"])
def test_a_home_that_is_not_known_yet_is_no_empty_home(name: str) -> None:
    error = refused(getattr(Listing(Home(HandClock())), name), {"entity_id": "light.sink"})
    assert (error.code, error.problem.suggestion[:9]) == (2006, "try again")


def test_answers_are_json(listing: Listing) -> None:
    for answer in (listing.states({}), listing.entities({}), listing.areas({}), listing.services({"domain": "light"})):
        assert canonical(answer)


def numbered(count: int) -> Listing:
    home = Home(HandClock())
    home.replace_entities(entity(f"sensor.n{number:03}") for number in range(count))
    home.in_step(live=True)
    return Listing(home)


@pytest.mark.parametrize("name", ["states", "entities"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 11])
def test_pages_of_any_size_are_together_the_whole_list_and_each_says_how_many_follow(name: str, limit: int) -> None:
    look = getattr(numbered(10), name)
    pages = [look({"limit": limit})]
    while "next_cursor" in pages[-1]:
        pages.append(look({"limit": limit, "cursor": pages[-1]["next_cursor"]}))
    assert [found for page in pages for found in ids(page)] == ids(look({}))
    assert [page["count"] + page["left_out"] for page in pages] == [10 - limit * at for at in range(len(pages))]
    assert all(page["count"] <= limit for page in pages)
    assert (pages[-1]["left_out"], look({})["left_out"]) == (0, 0)


def test_a_page_goes_on_behind_its_cursor_whatever_came_and_went_meanwhile() -> None:
    listing = numbered(6)
    first = listing.entities({"limit": 3})
    listing._home.drop("sensor.n002")
    listing._home.put(entity("sensor.n000a"))
    assert ids(listing.entities({"limit": 3, "cursor": first["next_cursor"]})) == [
        "sensor.n003", "sensor.n004", "sensor.n005",
    ]  # fmt: skip
    assert ids(listing.entities({"cursor": "zzz"})) == []


def test_a_page_is_one_of_what_the_filters_leave(listing: Listing) -> None:
    page = listing.entities({"domain": "light", "limit": 1})
    assert (ids(page), page["left_out"], page["next_cursor"]) == (["light.ceiling"], 1, "light.ceiling")
    assert ids(listing.entities({"domain": "light", "limit": 1, "cursor": "light.ceiling"})) == ["light.sink"]


@pytest.mark.parametrize("name", ["states", "entities"])
def test_what_rules_keep_from_the_caller_is_counted_and_nowhere_else_to_be_seen(listing: Listing, name: str) -> None:
    def is_withheld(alias: str) -> bool:
        return alias in ("ha_get_state(light.sink)", "ha_get_state(lock.front_door)")

    look = getattr(listing, name)
    whole = look({}, is_withheld)
    assert ids(whole) == ["light.ceiling", "light_group.all", "sensor.oven"]
    assert (whole["count"], whole["left_out"], whole["withheld"]) == (3, 0, 2)
    first = look({"limit": 1}, is_withheld)
    assert (first["left_out"], first["withheld"], first["next_cursor"]) == (2, 2, "light.ceiling")
    assert ids(look({"limit": 9, "cursor": first["next_cursor"]}, is_withheld)) == ["light_group.all", "sensor.oven"]
