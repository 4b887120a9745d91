"""What Home Assistant's WebSocket API does, shown by the real server and by the simulated one.

Names begin with the row of the facts that a test shows: A and B where a client that does otherwise fails.
"""

from __future__ import annotations

import pytest

from agent_gate.simulated_home import Running
from tests.contract.houses import House, Raw, a_call, a_connection, a_raw, eventually

GUEST = {"entity_id": "input_boolean.guest_mode"}


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"type": "auth", "access_token": "wrong"}, "Invalid access token or password"),
        ({"type": "auth"}, "Invalid access token or password"),
        (
            {"type": "get_states"},
            "Auth message incorrectly formatted: not a valid value for dictionary value @ data['type'].",
        ),
        (
            {"id": 1, "type": "auth", "access_token": "x"},
            "Auth message incorrectly formatted: extra keys not allowed @ data['id']. Got 1",
        ),
        (
            {"type": "auth", "access_token": 5},
            "Auth message incorrectly formatted: expected str for dictionary value @ data['access_token']. Got 5",
        ),
        ([1], "Auth message incorrectly formatted: expected a dictionary. Got [1]"),
    ],
)
async def test_b9_who_does_not_authenticate_is_told_why_and_left_with_code_1000(
    house: House, message: object, answer: str
) -> None:
    async with a_connection(house) as raw:
        await raw.say(message)
        said = await raw.hear()
        assert said["type"] == "auth_invalid"
        assert said["message"].startswith(answer)
        assert await raw.closed() == 1000


async def test_malformed_json_ends_the_connection_with_code_1000_before_and_after_auth(house: House) -> None:
    async with a_connection(house) as stranger:
        await stranger.say("{nonsense")
        assert await stranger.closed() == 1000
    async with a_raw(house) as raw:
        await raw.say("{nonsense")
        assert await raw.closed() == 1000


async def test_who_says_nothing_for_ten_seconds_is_left(house: House) -> None:
    if isinstance(house.of, Running):
        house.of.home.auth_s = 0.05
    async with a_connection(house) as raw:
        assert await raw.closed() is None


async def test_a3_every_message_needs_an_id_that_increases(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.begin("ping")
        assert await raw.hear() == {"id": 1, "type": "pong"}
        malformed = {"code": "invalid_format", "message": "Message incorrectly formatted."}
        for message, number in (({"type": "ping"}, None), ({"id": 0, "type": "ping"}, 0), ({"id": "x"}, "x"), (5, 0)):
            await raw.say(message)
            assert await raw.hear() == {"id": number, "type": "result", "success": False, "error": malformed}
        for number in (1, -1):
            await raw.say({"id": number, "type": "ping"})
            assert (await raw.hear())["error"] == {
                "code": "id_reuse",
                "message": "Identifier values have to increase.",
            }
        await raw.say([{"id": 7, "type": "ping"}, {"id": 9, "type": "ping"}])
        assert [await raw.hear(), await raw.hear()] == [{"id": 7, "type": "pong"}, {"id": 9, "type": "pong"}]


async def test_an_unknown_command_does_not_use_up_its_id(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.say([{"id": 5, "type": "nope"}, {"id": 5, "type": "ping"}])
        assert (await raw.hear())["error"]["code"] == "unknown_command"
        assert await raw.hear() == {"id": 5, "type": "pong"}


async def test_a4_features_are_named_in_an_object_and_then_frames_may_be_lists(house: House) -> None:
    async with a_raw(house) as raw:
        error = await raw.refused("supported_features", coalesce_messages=1)
        assert error["code"] == "invalid_format"
        answer = await raw.reply("supported_features", features={"coalesce_messages": 1})
        assert answer == {"id": 2, "type": "result", "success": True, "result": None}
        await raw.ask("subscribe_events", event_type="state_changed")
        await raw.call("burst.run", count=50, prefix="sensor.list_")
        lists = [frame for frame in raw.frames if isinstance(frame, list)]
        assert lists
        assert {one["type"] for frame in lists for one in frame} <= {"event", "result"}
        await raw.call("burst.clear", prefix="sensor.list_")


async def test_without_coalescing_each_frame_is_one_object(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="state_changed")
        await raw.call("burst.run", count=50, prefix="sensor.single_")
        await raw.call("burst.clear", prefix="sensor.single_")
        assert all(isinstance(frame, dict) for frame in raw.frames)


async def test_a5_a_burst_comes_as_one_frame_larger_than_the_default_of_clients(house: House) -> None:
    async with a_raw(house, coalesce=True) as raw, a_raw(house, coalesce=True, max_size=2**20) as small:
        for one in (raw, small):
            await one.ask("subscribe_events", event_type="state_changed")
        await raw.call("burst.run", count=3_500)
        assert max(len(frame) for frame in raw.frames if isinstance(frame, list)) > 3_000
        await small.closed()
        assert small.connection.protocol.close_sent is not None
        assert small.connection.protocol.close_sent.code == 1009
        await raw.call("burst.clear")


async def test_more_than_4096_pending_messages_drop_the_connection_without_a_word(house: House) -> None:
    async with a_raw(house, coalesce=True) as raw, a_raw(house) as other:
        await raw.ask("subscribe_events", event_type="state_changed")
        await raw.begin("call_service", **a_call("burst.run", count=6_000))
        assert await raw.closed() is None
        await other.call("burst.clear")


async def test_events_carry_their_subscription_their_origin_and_a_context(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.set({GUEST["entity_id"]: "off"})
        number = await raw.begin("subscribe_events", event_type="state_changed")
        await raw.answer_to(number)
        result = await raw.call("input_boolean.turn_on", GUEST)
        event = next(one for one in raw.events if one["event"]["data"]["entity_id"] == GUEST["entity_id"])
        assert (event["type"], event["id"]) == ("event", number)
        told = event["event"]
        assert {"event_type", "data", "origin", "time_fired", "context"} == set(told)
        assert (told["event_type"], told["origin"]) == ("state_changed", "LOCAL")
        assert told["context"] == result["context"] == told["data"]["new_state"]["context"]
        assert set(result["context"]) == {"id", "parent_id", "user_id"}
        assert (told["data"]["old_state"]["state"], told["data"]["new_state"]["state"]) == ("off", "on")
        assert set(told["data"]["new_state"]) == {
            "entity_id",
            "state",
            "attributes",
            "last_changed",
            "last_updated",
            "context",
        }


async def test_c3_a_subscription_ends_once(house: House) -> None:
    async with a_raw(house) as raw:
        number = await raw.begin("subscribe_events", event_type="state_changed")
        await raw.answer_to(number)
        await raw.ask("unsubscribe_events", subscription=number)
        assert await raw.refused("unsubscribe_events", subscription=number) == {
            "code": "not_found",
            "message": "Subscription not found.",
        }


@pytest.mark.parametrize(
    ("command", "fields", "code", "message"),
    [
        ("nope", {}, "unknown_command", "Unknown command."),
        ("extract_from_target", {}, "unknown_command", "Unknown command."),
        ("ping", {"x": 1}, "invalid_format", "extra keys not allowed @ data['x']. Got 1"),
        (
            "subscribe_events",
            {"event_type": 3},
            "invalid_format",
            "expected str for dictionary value @ data['event_type']. Got 3",
        ),
        (
            "call_service",
            {"domain": "light"},
            "invalid_format",
            "required key not provided @ data['service']. Got None",
        ),
        (
            "frontend/get_translations",
            {"language": "en"},
            "invalid_format",
            "required key not provided @ data['category']. Got None",
        ),
    ],
)
async def test_a_message_of_the_wrong_shape_is_refused_with_words(
    house: House, command: str, fields: dict[str, object], code: str, message: str
) -> None:
    async with a_raw(house) as raw:
        assert await raw.refused(command, **fields) == {"code": code, "message": message}


async def test_b9_a_revoked_token_drops_the_connection_and_is_invalid_from_then_on(house: House) -> None:
    token = await house.new_token()
    async with a_raw(house, token) as raw:
        await house.revoke(token)
        assert await raw.closed() is None
    async with a_connection(house) as again:
        await again.say({"type": "auth", "access_token": token})
        assert await again.hear() == {"type": "auth_invalid", "message": "Invalid access token or password"}
    answer = await house.rest("GET", "/api/states", token=token)
    assert (answer.status_code, answer.text) == (401, "401: Unauthorized")


async def test_who_is_no_admin_may_read_and_hear_but_not_everything(house: House) -> None:
    unauthorized = {"code": "unauthorized", "message": "Unauthorized"}
    for token in (house.limited_token, house.readonly_token):
        async with a_raw(house, token) as raw:
            for event in ("state_changed", "area_registry_updated", "device_registry_updated", "service_registered"):
                await raw.ask("subscribe_events", event_type=event)
            for command in ("get_states", "get_services", "get_config", "config/device_registry/list"):
                assert await raw.ask(command)
            assert await raw.refused("subscribe_events", event_type="homeassistant_started") == unauthorized
            assert await raw.refused("subscribe_events", event_type="mobile_app_notification_action") == unauthorized
            assert await raw.refused("subscribe_events") == unauthorized
            assert await raw.refused("fire_event", event_type="x_y") == unauthorized
            assert await raw.refused("config/area_registry/create", name="Nowhere") == unauthorized


async def test_subscribe_entities_tells_all_at_once_and_then_only_what_changes(house: House) -> None:
    light = "light.bed_light"
    async with a_raw(house) as raw:
        await raw.set({light: "off"})
        await raw.ask("subscribe_entities", entity_ids=[light])
        first = (await raw.event(lambda event: "a" in event))["a"][light]
        assert first["s"] == "off"
        assert isinstance(first["lc"], float)
        raw.events.clear()
        await raw.call("light.turn_on", {"entity_id": light}, brightness=100)
        await raw.call("light.turn_on", {"entity_id": light}, brightness=10)
        on, dim = [one["event"]["c"][light]["+"] for one in raw.events]
        assert (on["s"], on["a"]["brightness"], "lc" in on) == ("on", 100, True)
        assert ("s" not in dim, dim["a"], "lu" in dim) == (True, {"brightness": 10}, True)


async def test_b8_a_server_that_starts_answers_with_some_states_before_it_runs(house: House) -> None:
    async with a_raw(house) as raw:
        before = await raw.states()
        # What another test made while the server ran, a scene for one, does not come back.
        registered = {one["entity_id"] for one in await raw.ask("config/entity_registry/list")} & set(before)
        if not house.is_real:
            house.of.home.restart(hold=True)  # type: ignore[union-attr]
        else:
            await raw.begin("call_service", **a_call("homeassistant.restart"))
        assert await raw.closed() is None
    seen: list[tuple[str, int]] = []

    async def runs() -> bool:
        config = (await house.rest("GET", "/api/config")).json()
        states = (await house.rest("GET", "/api/states")).json()
        seen.append((config["state"], len(states)))
        if not house.is_real:
            house.of.home.finish_start()  # type: ignore[union-attr]
        return bool(config["state"] == "RUNNING")

    await eventually(runs)
    assert {phase for phase, _ in seen} <= {"NOT_RUNNING", "STARTING", "RUNNING"}
    assert seen[0][1] < len(before)
    async with a_raw(house) as again:
        await eventually(lambda: _all_back(again, registered))
        after = await again.states()
    lasting = [entity_id for entity_id in before if entity_id in after]
    assert all(before[one]["context"] != after[one]["context"] for one in lasting)


async def test_a_restart_is_answered_by_rest_and_over_the_websocket_it_is_not(house: House) -> None:
    async with a_raw(house) as raw:
        await raw.begin("call_service", **a_call("homeassistant.restart"))
        assert await raw.closed() is None
        assert not [frame for frame in raw.frames if frame.get("type") == "result"]
    await eventually(lambda: _runs(house))
    async with a_raw(house) as raw:
        answer = await house.rest("POST", "/api/services/homeassistant/restart", json={})
        assert (answer.status_code, answer.json()) == (200, [])
        assert await raw.closed() is None
    await eventually(lambda: _runs(house))


async def _runs(house: House) -> bool:
    answer = await house.rest("GET", "/api/config")
    return answer.status_code == 200 and bool(answer.json()["state"] == "RUNNING")


async def _all_back(raw: Raw, before: set[str]) -> bool:
    return len(before - set(await raw.states())) == 0
