"""What Home Assistant tells of itself and of the past, shown by the real server and by the simulated one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.houses import House, a_raw, eventually

GUEST, BED = "input_boolean.guest_mode", "light.bed_light"
TEMPERATURE, ENERGY = "kitchen_sink:temperature_outdoor", "kitchen_sink:energy_consumption_kwh"
STATISTICS = "recorder/statistics_during_period"


def _now(**ago: float) -> datetime:
    return datetime.now(timezone.utc) - timedelta(**ago)


async def test_rest_answers_for_the_whole_home(house: House) -> None:
    assert (await house.rest("GET", "/api/")).json() == {"message": "API running."}
    config = (await house.rest("GET", "/api/config")).json()
    assert (config["version"], config["state"]) == ("2024.3.3", "RUNNING")
    states = (await house.rest("GET", "/api/states")).json()
    async with a_raw(house) as raw:
        assert [state["entity_id"] for state in states] == list(await raw.states())
        assert (await raw.ask("get_config"))["state"] == "RUNNING"
    assert (await house.rest("GET", f"/api/states/{BED}")).json()["entity_id"] == BED
    missing = await house.rest("GET", "/api/states/light.nope")
    assert (missing.status_code, missing.json()) == (404, {"message": "Entity not found."})
    stranger = await house.rest("GET", "/api/states", token="wrong")
    assert (stranger.status_code, stranger.text) == (401, "401: Unauthorized")
    assert (await house.rest("GET", "/api/nope")).text == "404: Not Found"


async def test_a7_services_have_names_and_descriptions_or_else_translations_have(house: House) -> None:
    async with a_raw(house) as raw:
        services = await raw.ask("get_services")
        words = (await raw.ask("frontend/get_translations", language="en", category="services"))["resources"]
    light = services["light"]["turn_on"]
    assert (light["name"], light["description"][:27]) == ("Turn on", "Turn on one or more lights ")
    assert words["component.light.services.turn_on.description"] == light["description"]
    assert light["target"] == {"entity": [{"domain": ["light"]}]}
    assert {"brightness_pct", "transition", "rgb_color"} <= set(light["fields"])
    assert {"selector", "name", "description"} <= set(light["fields"]["brightness_pct"])
    listed = (await house.rest("GET", "/api/services")).json()
    assert {one["domain"]: one["services"] for one in listed} == services


async def test_events_can_be_fired_by_admins_only(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="x_y")
        answer = await house.rest("POST", "/api/events/x_y", json={"a": 1})
        assert (answer.status_code, answer.json()) == (200, {"message": "Event x_y fired."})
        event = await raw.event(lambda one: bool(one["event_type"] == "x_y"))
        assert (event["data"], event["origin"]) == ({"a": 1}, "REMOTE")
        raw.events.clear()
        result = await raw.ask("fire_event", event_type="x_y", event_data={"b": 2})
        event = await raw.event(lambda one: bool(one["event_type"] == "x_y"))
        assert (event["data"], event["origin"], event["context"]) == ({"b": 2}, "LOCAL", result["context"])
    bad = await house.rest("POST", "/api/events/x_y", json=[1])
    assert (bad.status_code, bad.json()) == (400, {"message": "Event data should be a JSON object"})
    refused = await house.rest("POST", "/api/events/x_y", json={}, token=house.limited_token)
    assert (refused.status_code, refused.text) == (401, "401: Unauthorized")


async def test_b7_an_area_keeps_its_id_when_it_is_renamed_and_has_aliases(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="area_registry_updated")
        attic = await raw.ask("config/area_registry/create", name="Attic Room")
        assert attic == {"aliases": [], "area_id": "attic_room", "icon": None, "name": "Attic Room", "picture": None}
        taken = await raw.refused("config/area_registry/create", name="attic room")
        assert taken["code"] == "invalid_info"
        await raw.ask("config/area_registry/update", area_id="attic_room", name="Loft", aliases=["Top"])
        areas = {area["area_id"]: area for area in await raw.ask("config/area_registry/list")}
        assert (areas["attic_room"]["name"], areas["attic_room"]["aliases"]) == ("Loft", ["Top"])
        await raw.ask("config/area_registry/delete", area_id="attic_room")
        told = [one["event"]["data"] for one in raw.events]
        assert told == [{"action": action, "area_id": "attic_room"} for action in ("create", "update", "remove")]


async def test_b7_an_entity_may_be_put_into_an_area_that_does_not_exist(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="entity_registry_updated")
        for area_id in ("nowhere", "bedroom"):
            await raw.ask("config/entity_registry/update", entity_id=BED, area_id=area_id)
            entries = {entry["entity_id"]: entry for entry in await raw.ask("config/entity_registry/list")}
            assert entries[BED]["area_id"] == area_id
        first, second = (one["event"]["data"] for one in raw.events)
        assert (first["action"], first["entity_id"], first["changes"]["area_id"]) == ("update", BED, "bedroom")
        assert second["changes"]["area_id"] == "nowhere"


async def test_b6_the_area_of_a_device_changes_without_an_event_of_its_entities(house: House) -> None:
    async with a_raw(house) as raw:
        devices = {device["name"]: device for device in await raw.ask("config/device_registry/list")}
        device_id = devices["HeatPump"]["id"]
        await raw.ask("config/device_registry/update", device_id=device_id, area_id=None)
        for event in ("device_registry_updated", "entity_registry_updated"):
            await raw.ask("subscribe_events", event_type=event)
        raw.events.clear()
        await raw.ask("config/device_registry/update", device_id=device_id, area_id="bedroom")
        assert [(one["event"]["event_type"], one["event"]["data"]["device_id"]) for one in raw.events] == [
            ("device_registry_updated", device_id)
        ]


async def test_c5_a_renamed_entity_goes_and_comes(house: House) -> None:
    fan, new = "fan.living_room_fan", "fan.lounge_fan"
    async with a_raw(house) as raw:
        for event in ("state_changed", "entity_registry_updated"):
            await raw.ask("subscribe_events", event_type=event)
        await raw.ask("config/entity_registry/update", entity_id=fan, new_entity_id=new)
        came = await raw.event(lambda one: one["data"]["entity_id"] == new and "new_state" in one["data"])
        assert came["data"]["old_state"] is None
        gone = await raw.event(lambda one: one["data"]["entity_id"] == fan)
        assert gone["data"]["new_state"] is None
        updated = await raw.event(lambda one: one["event_type"] == "entity_registry_updated")
        assert updated["data"]["old_entity_id"] == fan
        raw.events.clear()
        await raw.ask("config/entity_registry/update", entity_id=new, new_entity_id=fan)
        await raw.event(lambda one: one["data"]["entity_id"] == fan and one["data"].get("new_state") is not None)


async def test_c6_some_states_have_no_entry_in_the_registry(house: House) -> None:
    async with a_raw(house) as raw:
        entries = {entry["entity_id"] for entry in await raw.ask("config/entity_registry/list")}
        assert {"zone.home", "sun.sun"} - entries
        assert set(await raw.states()) - entries


async def test_b10_history_is_lists_of_rows_of_which_only_the_first_is_whole(house: House) -> None:
    begun = _now()
    async with a_raw(house) as raw:
        await raw.set({GUEST: "off"})
        await raw.set({GUEST: "on"})
        await raw.set({GUEST: "off"})

    async def rows() -> Any:
        found = await _history(house, begun, f"{GUEST},light.nope", minimal_response="")
        return found if found and len(found[0]) >= 3 else None

    (mine,) = await eventually(rows)
    assert mine[0]["entity_id"] == GUEST
    assert "attributes" in mine[0]
    assert [row["state"] for row in mine[-2:]] == ["on", "off"]
    assert all(set(row) == {"state", "last_changed"} for row in mine[1:])


async def test_b10_what_held_at_the_beginning_is_a_row_of_that_moment(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({GUEST: "off"})
        await raw.set({GUEST: "on"})
    begin = _now()

    async def row() -> Any:
        found = await _history(house, begin, GUEST, minimal_response="")
        return found[0][0] if found and found[0][0]["state"] == "on" else None

    assert datetime.fromisoformat((await eventually(row))["last_changed"]) == begin


async def test_b10_a_change_of_brightness_alone_is_no_significant_change(house: House) -> None:
    begun = _now()
    async with a_raw(house) as raw:
        await raw.set({BED: "off"})
        await raw.call("light.turn_on", {"entity_id": BED}, brightness=100)
        await raw.call("light.turn_on", {"entity_id": BED}, brightness=10)

    async def rows() -> Any:
        found = await _history(house, begun, BED, significant_changes_only="0")
        return found if found and found[0][-1]["attributes"].get("brightness") == 10 else None

    (every,) = await eventually(rows)
    assert [row["attributes"]["brightness"] for row in every[-2:]] == [100, 10]
    (significant,) = await _history(house, begun, BED)
    assert significant[-1]["attributes"]["brightness"] == 100


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("zzz?filter_entity_id=light.bed_light", 400, {"message": "Invalid datetime"}),
        ("2026-01-01T00:00:00+00:00", 400, {"message": "filter_entity_id is missing"}),
        ("2026-01-01T00:00:00+00:00?filter_entity_id=Bad", 400, {"message": "Invalid filter_entity_id"}),
        (
            "2026-01-01T00:00:00+00:00?filter_entity_id=light.bed_light&end_time=2026-01-02T00:00:00+00:00",
            400,
            {"message": "Invalid end_time"},
        ),
        (
            "2026-01-01T00:00:00+00:00?filter_entity_id=light.bed_light&end_time=2026-01-02T00:00:00%2B00:00",
            200,
            [],
        ),
        ("2096-01-01T00:00:00+00:00?filter_entity_id=light.bed_light", 200, []),
        ("2026-01-01T00:00:00+00:00?filter_entity_id=light.bed_light", 200, []),
        (
            "2026-01-03T00:00:00+00:00?filter_entity_id=light.bed_light&end_time=2026-01-02T00:00:00Z",
            200,
            [],
        ),
    ],
)
async def test_b10_periods_that_cannot_be_are_empty_or_refused(
    house: House, path: str, status: int, answer: object
) -> None:
    found = await house.rest("GET", f"/api/history/period/{path}")
    assert (found.status_code, found.json()) == (status, answer)


async def _history(house: House, begin: datetime, entity_ids: str, **options: str) -> Any:
    end = _now(seconds=-60).isoformat()
    given = {"filter_entity_id": entity_ids, "end_time": end, **options}
    answer = await house.rest("GET", f"/api/history/period/{quote(begin.isoformat())}", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a1_statistics_have_another_name_than_the_document_says(house: House) -> None:
    async with a_raw(house) as raw:
        error = await raw.refused("recorder/get_statistics_during_period")
        assert error == {"code": "unknown_command", "message": "Unknown command."}
        found = await raw.ask(STATISTICS, statistic_ids=[TEMPERATURE], start_time=_day(), period="hour")
        assert found[TEMPERATURE]


async def test_b11_rows_of_statistics_hold_what_their_kind_has_or_all_that_was_asked_for(house: House) -> None:
    asked: dict[str, Any] = {"statistic_ids": [TEMPERATURE], "start_time": _day(), "period": "hour"}
    async with a_raw(house) as raw:
        mean = (await raw.ask(STATISTICS, **asked))[TEMPERATURE][0]
        assert {"start", "end", "mean", "min", "max", "last_reset"} == set(mean)
        assert mean["end"] - mean["start"] == 3_600_000
        asked["statistic_ids"] = [ENERGY]
        total = (await raw.ask(STATISTICS, **asked))[ENERGY][0]
        assert {"start", "end", "sum", "state", "change", "last_reset"} == set(total)
        asked["statistic_ids"] = [TEMPERATURE, ENERGY, "sensor.nope"]
        both = await raw.ask(STATISTICS, **asked)
        assert set(both) == {TEMPERATURE, ENERGY}
        assert set(both[TEMPERATURE][0]) == set(both[ENERGY][0]) == {*mean, *total}
        types = ["mean", "min", "max", "sum", "state"]
        every = await raw.ask(STATISTICS, **asked, types=types)
        assert {*types, "start", "end"} == set(every[TEMPERATURE][0]) == set(every[ENERGY][0])
        assert (every[TEMPERATURE][0]["sum"], every[ENERGY][0]["mean"]) == (None, None)
        days = await raw.ask(STATISTICS, **{**asked, "period": "day"})
        assert days[ENERGY][0]["end"] - days[ENERGY][0]["start"] == 86_400_000


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"statistic_ids": []}, "invalid_format"),
        ({"period": "year"}, "invalid_format"),
        ({"start_time": "zzz"}, "invalid_start_time"),
        ({"end_time": "zzz"}, "invalid_end_time"),
    ],
)
async def test_b11_what_is_wrong_with_a_question_for_statistics_is_said(
    house: House, change: dict[str, Any], code: str
) -> None:
    asked = {"statistic_ids": [TEMPERATURE], "start_time": _day(), "period": "hour", **change}
    async with a_raw(house) as raw:
        assert (await raw.refused(STATISTICS, **asked))["code"] == code


async def test_b11_an_unknown_statistic_is_no_error(house: House) -> None:
    async with a_raw(house) as raw:
        asked = {"statistic_ids": ["sensor.nope"], "start_time": _day(), "period": "hour"}
        assert await raw.ask(STATISTICS, **asked) == {}


async def test_every_id_with_statistics_is_listed_with_its_kind(house: House) -> None:
    async with a_raw(house) as raw:
        listed = {one["statistic_id"]: one for one in await raw.ask("recorder/list_statistic_ids")}
        kinds = [(listed[one]["has_mean"], listed[one]["has_sum"]) for one in (TEMPERATURE, ENERGY)]
        assert kinds == [(True, False), (False, True)]


async def test_everyone_can_ask_who_they_are(house: House) -> None:
    for token, name, is_admin in ((house.token, "owner", True), (house.readonly_token, "readonly", False)):
        async with a_raw(house, token) as raw:
            user = await raw.ask("auth/current_user")
            assert (user["name"], user["is_admin"], user["is_owner"]) == (name, is_admin, is_admin)


def _day() -> str:
    return _now(days=1).isoformat()


@pytest.mark.parametrize(
    ("template", "status", "answer"),
    [
        ("{{ 1 + 1 }} and {{ 'text' }}", 200, "2 and text"),
        ("{{ states('sun.sun') == states.sun.sun.state }}", 200, "True"),
        ("{{ states('sensor.nope') }}|{{ state_attr('sensor.nope', 'x') }}", 200, "unknown|None"),
        ("{{ state_attr('light.bed_light', 'friendly_name') }}", 200, "Bed Light"),
        ("{{ is_state('light.nope', 'on') }}", 200, "False"),
        ("{{ 'light.ceiling_lights' in area_entities('Kitchen') }}", 200, "True"),
        ("{{ undefined_thing }}.", 200, "."),
        ("{{ nope( }}", 400, "Error rendering template: TemplateSyntaxError: unexpected '}', expected ')'"),
        ("{{ nope() }}", 400, "Error rendering template: UndefinedError: 'nope' is undefined"),
    ],
)
async def test_b12_a_template_is_rendered_as_text_or_refused_with_words(
    house: House, template: str, status: int, answer: str
) -> None:
    found = await house.rest("POST", "/api/template", json={"template": template})
    text = found.text if status == 200 else found.json()["message"]
    assert (found.status_code, text) == (status, answer)


async def test_b12_templates_are_for_admins_and_need_a_template(house: House) -> None:
    for token in (house.limited_token, house.readonly_token):
        refused = await house.rest("POST", "/api/template", json={"template": "x"}, token=token)
        assert (refused.status_code, refused.text) == (401, "401: Unauthorized")
        assert (await house.rest("GET", "/api/states", token=token)).status_code == 200
    empty = await house.rest("POST", "/api/template", json={})
    assert (empty.status_code, empty.text[:3]) == (500, "500")
