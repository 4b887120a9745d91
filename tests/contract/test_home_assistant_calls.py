"""What calls of services do, over WebSocket and REST, shown by the real server and by the simulated one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.houses import House, a_call, a_raw, eventually

GUEST, BED = "input_boolean.guest_mode", "light.bed_light"


async def test_a6_a_rest_body_is_flat_and_a_nested_target_is_refused(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({BED: "off"})
    nested = {"target": {"entity_id": BED}, "brightness_pct": 40}
    answer = await house.rest("POST", "/api/services/light/turn_on", json=nested)
    assert (answer.status_code, answer.text) == (400, "400: Bad Request")
    flat = {"entity_id": BED, "brightness_pct": 40}
    answer = await house.rest("POST", "/api/services/light/turn_on", json=flat)
    (state,) = answer.json()
    assert (answer.status_code, state["state"], state["attributes"]["brightness"]) == (200, "on", 102)
    by_area = await house.rest("POST", "/api/services/light/turn_off", json={"area_id": "bedroom"})
    assert BED in {state["entity_id"] for state in by_area.json()}


async def test_b1_rest_tells_no_context_where_nothing_changed_and_the_socket_always_does(house: House) -> None:
    body = {"entity_id": GUEST}
    await house.rest("POST", "/api/services/input_boolean/turn_off", json=body)
    changed = await house.rest("POST", "/api/services/input_boolean/turn_on", json=body)
    assert changed.json()[0]["context"]["id"]
    assert not any("context" in name for name in changed.headers)
    again = await house.rest("POST", "/api/services/input_boolean/turn_on", json=body)
    assert (again.status_code, again.json()) == (200, [])
    async with a_raw(house) as raw:
        assert (await raw.call("input_boolean.turn_on", body))["context"]["id"]


async def test_b2_an_entity_may_be_written_several_times_and_events_come_before_the_result(house: House) -> None:
    lock = {"entity_id": "lock.front_door"}
    async with a_raw(house) as raw:
        await raw.set({"lock.front_door": "locked"})
        await raw.ask("subscribe_events", event_type="state_changed")
        raw.events.clear()
        result = await raw.call("lock.unlock", lock)
        told = [one["event"] for one in raw.events if one["event"]["context"]["id"] == result["context"]["id"]]
        mine = [one["data"]["new_state"]["state"] for one in told if one["data"]["entity_id"] == "lock.front_door"]
        assert mine == ["unlocking", "unlocked"]
    answer = await house.rest("POST", "/api/services/lock/lock", json=lock)
    found = [state["state"] for state in answer.json() if state["entity_id"] == "lock.front_door"]
    assert found == ["locking", "locked"]


async def test_b2_a_slow_device_reports_after_the_call_has_been_answered(house: House) -> None:
    window = {"entity_id": "cover.hall_window"}
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="state_changed")
        answer = await house.rest("POST", "/api/services/cover/close_cover", json=window)
        assert [state["state"] for state in answer.json()] == ["closing"]
        await raw.event(lambda event: _state(event, **window) == "closed")
        raw.events.clear()
        answer = await house.rest("POST", "/api/services/cover/set_cover_position", json={**window, "position": 10})
        assert (answer.status_code, answer.json()) == (200, [])
        await raw.event(lambda event: _state(event, **window) == "open")


def _state(event: dict[str, Any], entity_id: str) -> Any:
    return event["data"]["entity_id"] == entity_id and event["data"]["new_state"]["state"]


MODES = "'off', 'heat', 'cool', 'heat_cool', 'auto', 'dry', 'fan_only'"
REFUSALS = [
    ("light.nope", {"entity_id": BED}, {}, "not_found", "Service light.nope not found.", 400),
    (
        "light.turn_on",
        {"entity_id": BED},
        {"brightness_pct": "x"},
        "invalid_format",
        "expected float for dictionary value @ data['brightness_pct']",
        400,
    ),
    (
        "light.turn_on",
        {"entity_id": BED},
        {"brightness_pct": 300},
        "invalid_format",
        "value must be at most 100 for dictionary value @ data['brightness_pct']",
        400,
    ),
    (
        "light.turn_on",
        {"entity_id": BED},
        {"foo": 1},
        "invalid_format",
        "extra keys not allowed @ data['foo']",
        400,
    ),
    (
        "light.turn_on",
        {},
        {},
        "invalid_format",
        "must contain at least one of entity_id, device_id, area_id.",
        400,
    ),
    (
        "climate.set_hvac_mode",
        {"entity_id": "climate.heatpump"},
        {"hvac_mode": "zzz"},
        "invalid_format",
        f"expected HVACMode or one of {MODES} for dictionary value @ data['hvac_mode']",
        400,
    ),
    (
        "cover.set_cover_position",
        {"entity_id": "cover.hall_window"},
        {"position": 140},
        "invalid_format",
        "value must be at most 100 for dictionary value @ data['position']",
        400,
    ),
    (
        "input_number.set_value",
        {"entity_id": "input_number.burst"},
        {},
        "invalid_format",
        "required key not provided @ data['value']",
        400,
    ),
    (
        "input_number.set_value",
        {"entity_id": "input_number.burst"},
        {"value": -5},
        "invalid_format",
        "Invalid value for input_number.burst: -5.0 (range 0.0 - 1000000.0)",
        400,
    ),
    ("notify.notify", None, {}, "invalid_format", "required key not provided @ data['message']", 400),
    (
        "scene.apply",
        None,
        {"entities": {BED: {"brightness": 20}}},
        "invalid_format",
        f"State for {BED} should be a string for dictionary value @ data['entities']",
        400,
    ),
    (
        "lock.open",
        {"entity_id": "lock.front_door"},
        {},
        "home_assistant_error",
        "Entity lock.front_door does not support this service.",
        500,
    ),
]


@pytest.mark.parametrize(("service", "target", "data", "code", "message", "status"), REFUSALS)
async def test_b3_the_socket_says_why_and_rest_does_not(
    house: House, service: str, target: Any, data: dict[str, Any], code: str, message: str, status: int
) -> None:
    async with a_raw(house) as raw:
        error = await raw.refused("call_service", **a_call(service, target, **data))
    assert (error["code"], error["message"]) == (code, message)
    answer = await house.rest("POST", f"/api/services/{service.replace('.', '/')}", json={**(target or {}), **data})
    reasons = {400: "400: Bad Request", 500: "500 Internal Server Error\n\nServer got itself in trouble"}
    assert (answer.status_code, answer.text) == (status, reasons[status])
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("floor_id", "x", "extra keys not allowed"),
        ("label_id", "x", "extra keys not allowed"),
        ("entity_id", "nonsense", "not a valid value for dictionary value"),
    ],
)
async def test_b3_a_target_is_looked_at_before_the_service(house: House, key: str, value: str, problem: str) -> None:
    async with a_raw(house) as raw:
        error = await raw.refused("call_service", **a_call("light.turn_on", {key: value}))
        assert error == {"code": "invalid_format", "message": f"{problem} @ data['target']['{key}']. Got {value!r}"}


@pytest.mark.parametrize(
    ("service", "target"),
    [
        ("light.turn_on", {"entity_id": "light.nope"}),
        ("light.turn_on", {"area_id": "nowhere"}),
        ("light.turn_on", {"device_id": "none_such"}),
        ("lock.unlock", {"entity_id": "lock.nope"}),
        ("scene.turn_on", {"entity_id": "scene.nope"}),
        ("switch.turn_on", {"entity_id": BED}),
    ],
)
async def test_b4_what_does_not_exist_is_called_with_success_and_nothing_changes(
    house: House, service: str, target: dict[str, str]
) -> None:
    async with a_raw(house) as raw:
        before = await raw.states()
        result = await raw.call(service, target)
        assert list(result) == ["context"]
        after = await raw.states()
        assert [one for one in before if after[one]["context"]["id"] == result["context"]["id"]] == []
    answer = await house.rest("POST", f"/api/services/{service.replace('.', '/')}", json=target)
    assert (answer.status_code, answer.json()) == (200, [])


async def test_b5_a_transition_of_null_is_refused(house: House) -> None:
    scene = {"entity_id": "scene.movie_night"}
    async with a_raw(house) as raw:
        error = await raw.refused("call_service", **a_call("scene.turn_on", scene, transition=None))
        assert error["message"] == "expected float for dictionary value @ data['transition']"
    answer = await house.rest("POST", "/api/services/scene/turn_on", json={**scene, "transition": None})
    assert answer.status_code == 400


async def test_b6_an_area_holds_what_its_devices_hold(house: House) -> None:
    async with a_raw(house) as raw:
        entries = {entry["entity_id"]: entry for entry in await raw.ask("config/entity_registry/list")}
        devices = {device["id"]: device for device in await raw.ask("config/device_registry/list")}
        ceiling = entries["light.ceiling_lights"]
        assert (ceiling["area_id"], devices[ceiling["device_id"]]["area_id"]) == (None, "kitchen")
        await raw.set({"light.ceiling_lights": "off", "light.kitchen_lights": "off"})
        await raw.call("light.turn_on", {"area_id": "kitchen"})
        states = await raw.states()
        assert [states[one]["state"] for one in ("light.ceiling_lights", "light.kitchen_lights")] == ["on", "on"]
        await raw.call("light.turn_off", {"device_id": ceiling["device_id"]})
        states = await raw.states()
        assert [states[one]["state"] for one in ("light.ceiling_lights", "light.kitchen_lights")] == ["off", "on"]


async def test_a_group_stands_for_its_members_and_follows_them(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({"lock.front_door": "locked", "light.ceiling_lights": "on"})
        group = (await raw.states())["group.downstairs"]
        assert set(group["attributes"]["entity_id"]) >= {"light.kitchen_lights", "lock.front_door"}
        await raw.call("light.turn_off", {"entity_id": "group.downstairs"})
        states = await raw.states()
        assert states["light.ceiling_lights"]["state"] == states["group.downstairs"]["state"] == "off"
        assert states["lock.front_door"]["state"] == "locked"


async def test_a_scene_names_its_members_and_brings_them_to_their_states(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({"light.kitchen_lights": "on", BED: "off", "input_boolean.movie_mode": "off"})
        members = (await raw.states())["scene.movie_night"]["attributes"]["entity_id"]
        assert members == ["light.kitchen_lights", BED, "input_boolean.movie_mode"]
        await raw.ask("subscribe_events", event_type="state_changed")
        raw.events.clear()
        result = await raw.call("scene.turn_on", {"entity_id": "scene.movie_night"})
        told = [one["event"]["data"] for one in raw.events if one["event"]["context"]["id"] == result["context"]["id"]]
        now = {one["entity_id"]: one["new_state"]["state"] for one in told}
        assert {entity_id: now[entity_id] for entity_id in members} == dict(
            zip(members, ["off", "on", "on"], strict=True)
        )
        assert now["scene.movie_night"].startswith("20")


async def test_a_scene_can_be_applied_without_being_kept(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({BED: "off", "lock.front_door": "unlocked"})
        await raw.call("scene.apply", entities={BED: {"state": "on", "brightness": 60}, "lock.front_door": "locked"})
        states = await raw.states()
        assert (states[BED]["state"], states[BED]["attributes"]["brightness"]) == ("on", 60)
        assert states["lock.front_door"]["state"] == "locked"


async def test_the_generic_service_passes_over_what_has_no_such_service(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({"lock.front_door": "unlocked", BED: "on"})
        await raw.call("homeassistant.turn_off", {"entity_id": [BED, "lock.front_door"]})
        states = await raw.states()
        assert (states[BED]["state"], states["lock.front_door"]["state"]) == ("off", "unlocked")
        for service in ("homeassistant.turn_off", "homeassistant.turn_on"):
            await raw.call(service, {"entity_id": "cover.living_room_window"})
        window = (await raw.states())["cover.living_room_window"]
        assert window["last_updated"] == states["cover.living_room_window"]["last_updated"]


async def test_b13_a_response_is_asked_for_where_the_service_has_one_and_only_there(house: House) -> None:
    north = {"entity_id": "weather.demo_weather_north"}
    async with a_raw(house) as raw:
        services = await raw.ask("get_services")
        assert services["weather"]["get_forecasts"]["response"] == {"optional": False}
        assert services["script"]["answer"]["response"] == {"optional": True}
        assert "response" not in services["light"]["turn_on"]
        without = await raw.refused("call_service", **a_call("weather.get_forecasts", north, type="daily"))
        assert without == {
            "code": "unknown_error",
            "message": "Service call requires responses but caller did not ask for responses",
        }
        answer = await raw.call("weather.get_forecasts", north, type="daily", return_response=True)
        assert answer["response"][north["entity_id"]]["forecast"]
        assert (await raw.call("script.answer", return_response=True))["response"] == {"value": 42}
        assert "response" not in await raw.call("script.answer")
        bare = await raw.refused("call_service", **a_call("light.turn_on", {"entity_id": BED}, return_response=True))
        assert bare["message"] == "Invalid argument return_response=True when handler does not support responses"
    body = {**north, "type": "daily"}
    assert (await house.rest("POST", "/api/services/weather/get_forecasts", json=body)).status_code == 500


async def test_a_script_that_fails_is_a_call_that_succeeded(house: House) -> None:
    async with a_raw(house) as raw:
        assert list(await raw.call("script.failing")) == ["context"]


async def test_c2_a_call_goes_on_when_its_caller_has_gone(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({"lock.front_door": "locked"})
        await raw.ask("subscribe_events", event_type="state_changed")
        raw.events.clear()
        await raw.begin("call_service", **a_call("lock.unlock", {"entity_id": "lock.front_door"}))
        await raw.event(lambda event: event["data"]["entity_id"] == "lock.front_door")

    async def is_unlocked() -> bool:
        return bool((await house.rest("GET", "/api/states/lock.front_door")).json()["state"] == "unlocked")

    assert await eventually(is_unlocked)


async def test_c2_other_commands_are_answered_while_a_slow_one_runs(house: House) -> None:
    async with a_raw(house) as raw:
        number = await raw.begin("call_service", **a_call("script.slow"))
        assert (await raw.reply("ping"))["type"] == "pong"
        assert all(frame.get("id") != number for frame in raw.frames)
        await raw.call("script.turn_off", {"entity_id": "script.slow"})


async def test_who_may_only_read_controls_nothing(house: House) -> None:
    refused = [("input_boolean.turn_on", {"entity_id": GUEST}), ("script.movie_time", None)]
    refused += [("scene.apply", None), ("homeassistant.turn_off", {"entity_id": BED})]
    async with a_raw(house) as owner:
        await owner.set({BED: "on"})
    async with a_raw(house, house.readonly_token) as raw:
        for service, target in refused:
            data = {"entities": {BED: "off"}} if service == "scene.apply" else {}
            error = await raw.refused("call_service", **a_call(service, target, **data))
            assert (error["code"], error["message"]) == ("home_assistant_error", "Unauthorized")
            path = f"/api/services/{service.replace('.', '/')}"
            answer = await house.rest("POST", path, token=house.readonly_token, json={**(target or {}), **data})
            assert (answer.status_code, answer.text) == (401, "401: Unauthorized")
        assert list(await raw.call("notify.notify", message="hello")) == ["context"]


async def test_who_is_no_admin_controls_devices_but_not_the_server(house: House) -> None:
    async with a_raw(house, house.limited_token) as raw:
        await raw.set({GUEST: "off"})
        await raw.set({GUEST: "on"})
        error = await raw.refused("call_service", **a_call("homeassistant.restart"))
        assert (error["code"], error["message"]) == ("home_assistant_error", "Unauthorized")
    answer = await house.rest("POST", "/api/services/homeassistant/restart", token=house.limited_token, json={})
    assert answer.status_code == 401


async def test_some_services_name_what_they_make_or_change_by_a_word_of_their_own(house: House) -> None:
    """Nothing in the call looks like an id, and an entity is there, is another, or is gone."""
    async with a_raw(house) as raw:
        await raw.call("group.set", object_id="by_word", entities=["light.bed_light"])
        assert (await state_of(house, "group.by_word"))["attributes"]["entity_id"] == ["light.bed_light"]
        await raw.call("group.set", object_id="by_word", add_entities="lock.front_door")
        assert "lock.front_door" in (await state_of(house, "group.by_word"))["attributes"]["entity_id"]
        await raw.call("group.remove", object_id="by_word")
        assert await state_of(house, "group.by_word") == {}
        await raw.call("scene.create", scene_id="by_word", entities={"light.bed_light": "on"})
        assert (await state_of(house, "scene.by_word"))["attributes"]["entity_id"] == ["light.bed_light"]
        await raw.call("device_tracker.see", dev_id="By_Word", location_name="cellar")
        assert (await state_of(house, "device_tracker.by_word"))["state"] == "cellar"
        refused = await raw.refused("call_service", **a_call("group.set", None, object_id="By_Word", entities=[]))
        assert refused["code"] == "invalid_format"


async def state_of(house: House, entity_id: str) -> Any:
    """Empty where there is none."""
    answer = await house.rest("GET", f"/api/states/{entity_id}")
    return answer.json() if answer.status_code == 200 else {}
