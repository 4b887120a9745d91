"""Coming into step with a home and staying so: nothing is lost, nothing old comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_gate.services.home_assistant.bounds import HomeBounds
from agent_gate.services.home_assistant.client import HomeClient
from tests.gates import until
from tests.scripted_home import (
    NotAnswered,
    Pauses,
    ScriptedHome,
    a_client,
    changed,
    no,
    registered,
    state,
)

SETTLE, STARTING = 0.5, 1.0


def states_of(client: HomeClient) -> dict[str, str]:
    return {entity_id: client.home.entities[entity_id].state for entity_id in client.home.sorted_ids()}


class Coalescing(ScriptedHome):
    frames: list[dict[str, Any]] | None = None

    async def take(self, message: dict[str, Any]) -> None:
        await super().take(message)
        if self.frames is not None:
            frames, self.frames = self.frames, None
            await self.say(frames)


def fetched_with(home: Coalescing, *events: dict[str, Any], after: bool = False) -> Callable[[dict[str, Any]], Any]:
    """An answer to `get_states` in one frame with events, before or after it."""

    def answer(message: dict[str, Any]) -> Any:
        told = {"id": message["id"], "type": "result", "success": True, "result": home.states}
        heard = [home.event(event) for event in events]
        home.frames = [told, *heard] if after else [*heard, told]
        raise NotAnswered

    return answer


async def test_changes_are_subscribed_to_before_states_and_registries_are_fetched() -> None:
    async with ScriptedHome().serving() as home, a_client(home.url):
        types = home.types()
    last_subscription = max(place for place, kind in enumerate(types) if kind == "subscribe_events")
    assert last_subscription < min(types.index("get_config"), types.index("get_states"))
    assert types.index("get_config") < types.index("get_states") < types.index("config/entity_registry/list")


@pytest.mark.parametrize("after", [False, True])
async def test_a_change_between_subscription_and_fetch_is_not_overwritten_by_what_is_older(after: bool) -> None:
    home = Coalescing()
    home.states = [state("light.a", "off", "01"), state("light.b", "off", "01")]
    newer = changed("light.a", state("light.a", "on", "02"))
    home.answers["get_states"] = fetched_with(home, newer, after=after)
    async with home.serving(), a_client(home.url) as client:
        assert client.home.is_live
        assert states_of(client) == {"light.a": "on", "light.b": "off"}


async def test_what_was_fetched_goes_before_an_event_that_is_older() -> None:
    home = Coalescing()
    home.states = [state("light.a", "on", "03")]
    home.answers["get_states"] = fetched_with(home, changed("light.a", state("light.a", "off", "02")))
    async with home.serving(), a_client(home.url) as client:
        assert states_of(client) == {"light.a": "on"}


@pytest.mark.parametrize("after", [False, True])
async def test_what_came_and_went_between_subscription_and_fetch_is_as_the_events_say(after: bool) -> None:
    home = Coalescing()
    home.states = [state("light.gone", "on", "01"), state("light.back", "on", "05")]
    home.answers["get_states"] = fetched_with(
        home,
        changed("light.gone", None, "02"),
        changed("light.new", state("light.new", "on", "02"), "02"),
        *(() if after else (changed("light.back", None, "04"),)),
        after=after,
    )
    async with home.serving(), a_client(home.url) as client:
        assert states_of(client) == {"light.back": "on", "light.new": "on"}
        assert client.home.entity("light.gone") is None


async def test_events_change_add_and_remove_entities() -> None:
    home = ScriptedHome()
    home.states = [state("light.a", "off"), state("light.b", "off")]
    async with home.serving(), a_client(home.url) as client:
        await home.say(
            [
                home.event(changed("light.a", state("light.a", "on", "09", brightness=7))),
                home.event(changed("light.b", None)),
                home.event(changed("light.c", state("light.c", "on"))),
            ]
        )
        await until(lambda: client.home.entity("light.c"))
        assert states_of(client) == {"light.a": "on", "light.c": "on"}
        entity = client.home.entities["light.a"]
    assert (entity.attributes, entity.last_updated, entity.context_id) == (
        {"brightness": 7},
        "2026-03-04T12:00:09+00:00",
        "context-09",
    )


async def test_malformed_events_and_states_are_passed_over_and_harm_nothing() -> None:
    home = ScriptedHome()
    odd_states: list[Any] = [7, None, {}, {"entity_id": 3}, {"entity_id": "light.bare", "attributes": 5, "context": 5}]
    home.states = [*odd_states, state("light.a", "on") | {"last_updated": 7}]
    async with home.serving(), a_client(home.url) as client:
        odd: list[Any] = [{}, {"data": None}, {"data": {}}, {"data": {"new_state": 5}}, {"data": {"new_state": None}}]
        for event in odd:
            await home.say(home.event({"event_type": "state_changed", **event}))
        await home.say(home.event(changed("light.a", state("light.a", "off"))))
        await until(lambda: client.home.entities["light.a"].state == "off")
        assert client.home.is_live
        assert states_of(client) == {"light.a": "off", "light.bare": ""}


async def test_while_the_server_starts_nothing_is_dropped_and_then_everything_is_swapped() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.states = [state("light.a", "off"), state("light.b", "off"), state("light.c", "off")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.phase = "NOT_RUNNING"
        home.states = [state("light.a", "on", "20")]
        await home.drop()
        await pauses.end(0.8)
        await pauses.end(STARTING)
        await until(lambda: pauses.asked.count(STARTING) == 2)
        assert states_of(client) == {"light.a": "on", "light.b": "off", "light.c": "off"}
        assert not client.home.is_live
        assert "still starts" in client.trouble
        home.states = [state("light.a", "on", "20"), state("light.c", "on", "21")]
        home.phase = "RUNNING"
        await pauses.end(STARTING)
        await until(lambda: client.home.is_live)
        assert states_of(client) == {"light.a": "on", "light.c": "on"}
        assert client.trouble == ""


async def test_a_first_start_on_a_server_that_still_starts_is_not_ready() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.phase = "STARTING"
    home.states = [state("light.a", "off")]
    bounds = HomeBounds(first_sight_s=0.01)
    async with home.serving(), a_client(home.url, pause=pauses, bounds=bounds) as client:
        await until(lambda: STARTING in pauses.asked)
        assert not client.home.is_ready
        home.phase = "RUNNING"
        await pauses.end(STARTING)
        await until(lambda: client.home.is_ready)
        assert states_of(client) == {"light.a": "off"}


async def test_a_burst_of_registry_events_leads_to_one_reading_of_what_changed() -> None:
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        await until(lambda: client.home.is_live)
        home.heard.clear()
        home.answers["config/entity_registry/list"] = lambda _: [registered("light.a", area_id="kitchen")]
        home.answers["config/area_registry/list"] = lambda _: [{"area_id": "kitchen", "name": "Kitchen"}]
        numbers = {kind: number for number, kind in enumerate(_event_types(home), 2)}
        burst = [
            {"id": numbers[kind], "type": "event", "event": {"event_type": kind, "data": {"action": "create"}}}
            for kind in ["entity_registry_updated", "area_registry_updated"] * 50
        ]
        await home.say(burst)
        await pauses.end(SETTLE)
        await until(lambda: client.home.in_area("kitchen") == ["light.a"])
        assert sorted(home.types()) == ["config/area_registry/list", "config/entity_registry/list"]


async def test_a_device_that_moves_takes_its_entities_along() -> None:
    home, pauses = ScriptedHome(), Pauses()
    areas = [{"area_id": "kitchen", "name": "Kitchen", "aliases": ["Cooking"], "floor_id": None}, {"area_id": "hall"}]
    home.answers["config/area_registry/list"] = lambda _: areas
    home.answers["config/entity_registry/list"] = lambda _: [registered("light.a", device_id="d", area_id=None)]
    home.answers["config/device_registry/list"] = lambda _: [{"id": "d", "area_id": "kitchen"}]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        assert client.home.find_area("cooking") is client.home.area_of("light.a") is not None
        home.answers["config/device_registry/list"] = lambda _: [{"id": "d", "area_id": "hall"}]
        assert client.home.is_settled
        await home.say(home.event({"event_type": "device_registry_updated", "data": {"action": "update"}}))
        await until(lambda: not client.home.is_settled)
        await pauses.end(SETTLE)
        await until(lambda: client.home.in_area("hall") == ["light.a"])
        assert client.home.is_settled


async def test_an_old_server_without_floors_and_labels_will_do_and_a_new_one_has_them() -> None:
    home = ScriptedHome()
    async with home.serving(), a_client(home.url) as client:
        assert client.home.is_live
        assert not client.home.knows_floor("upper")
    home.answers["config/floor_registry/list"] = lambda _: [{"floor_id": "upper", "name": "Upper"}]
    home.answers["config/label_registry/list"] = lambda _: [{"label_id": "cosy", "name": "Cosy"}]
    async with home.serving(), a_client(home.url) as client:
        assert client.home.knows_floor("upper")
        assert client.home.labels == {"cosy": "Cosy"}


async def test_without_the_devices_the_home_is_not_in_step_since_areas_would_miss_entities() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.answers["config/device_registry/list"] = no("unauthorized", "Unauthorized")
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        assert not client.home.is_live
        assert "Unauthorized" in client.trouble


async def test_a_token_without_an_administrator_s_rights_hears_what_it_may() -> None:
    home = ScriptedHome()

    def subscribe(message: dict[str, Any]) -> Any:
        if message["event_type"] not in ("state_changed", "entity_registry_updated"):
            no("unauthorized")(message)

    home.answers["subscribe_events"] = subscribe
    async with home.serving(), a_client(home.url) as client:
        assert client.home.is_live
        await home.say(home.event(changed("light.a", state("light.a", "on"))))
        await until(lambda: client.home.entity("light.a"))


async def test_services_are_known_with_their_words_fields_targets_and_responses() -> None:
    home = ScriptedHome()
    home.answers["get_services"] = lambda _: {
        "light": {"turn_on": {"name": "Turn on", "description": "Turns on.", "fields": {"x": {}}, "target": {"e": 1}}},
        "weather": {"get_forecasts": {"name": "F", "description": "D", "response": {"optional": False}}},
        "script": {"answer": {"name": "A", "description": "D", "response": {"optional": True}}},
        "odd": None,
    }
    async with home.serving(), a_client(home.url) as client:
        services = client.home.services
    assert {key: known.response for key, known in services.items()} == {
        ("light", "turn_on"): "none",
        ("weather", "get_forecasts"): "only",
        ("script", "answer"): "optional",
    }
    light = services["light", "turn_on"]
    assert (light.name, light.description, light.fields, light.target) == ("Turn on", "Turns on.", {"x": {}}, {"e": 1})
    assert "frontend/get_translations" not in home.types()


async def test_words_that_newer_servers_keep_apart_are_fetched_and_scripts_have_their_own_names() -> None:
    home = ScriptedHome()
    home.states = [state("script.movie", "off", friendly_name="Movie time")]
    home.answers["get_services"] = lambda _: {"light": {"turn_on": {"fields": {}}}, "script": {"movie": {}}}
    key = "component.light.services.turn_on"
    home.answers["frontend/get_translations"] = lambda _: {
        "resources": {f"{key}.name": "Turn on", f"{key}.description": "Turns on."}
    }
    async with home.serving(), a_client(home.url) as client:
        services = client.home.services
    asked = next(message for message in home.heard if message["type"] == "frontend/get_translations")
    assert (asked["language"], asked["category"]) == ("en", "services")
    assert (services["light", "turn_on"].name, services["light", "turn_on"].description) == ("Turn on", "Turns on.")
    assert services["script", "movie"].name == "Movie time"


async def test_a_service_that_is_registered_later_is_known_after_a_while() -> None:
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.answers["get_services"] = lambda _: {"new": {"one": {"name": "n", "description": "d"}}}
        await home.say(home.event({"event_type": "service_registered", "data": {"domain": "new", "service": "one"}}))
        await pauses.end(SETTLE)
        await until(lambda: ("new", "one") in client.home.services)


def _event_types(home: ScriptedHome) -> list[str]:
    """In the order in which they were subscribed to, the first of which has number 2."""
    said = [json.loads(text) for text in home.texts]
    return [message["event_type"] for message in said if message["type"] == "subscribe_events"]
