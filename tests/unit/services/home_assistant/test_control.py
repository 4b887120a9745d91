"""The hands that act on a home, where nothing may be sent."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from agent_gate import Agent
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.policy import Policy
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Moved, RegisteredTool
from agent_gate.services.home_assistant.bounds import HomeBounds
from agent_gate.services.home_assistant.client import Called, HomeClient
from agent_gate.services.home_assistant.control import control_tools
from agent_gate.services.home_assistant.home import Area, Home, RegistryEntry
from tests.gates import NOON, HandClock, soon
from tests.unit.services.home_assistant.homes import a_home, entity

NOBODY = "http://127.0.0.1:9"


async def send_nothing(*_: Any, **__: Any) -> Called:
    raise AssertionError("nothing is sent in these tests")


def registered_tools(home: Home, bounds: HomeBounds | None = None) -> dict[str, RegisteredTool]:
    client = HomeClient(HomeAssistantConfig(NOBODY), "token", HandClock(), bounds=bounds or HomeBounds())
    client.home = home
    return {registered.declaration.name: registered for registered in control_tools(client, HandClock(), send_nothing)}


async def bound(
    home: Home, tool: str = "ha_call_service", bounds: HomeBounds | None = None, **args: Any
) -> tuple[Binding, BoundCall]:
    registered = registered_tools(home, bounds)[tool]
    assert registered.bind is not None
    request = CallRequest(Agent("bot"), tool, args)
    binding = await registered.bind(request, args, Judge(Policy()))
    return binding, BoundCall("c", request, args, args, binding.signatures, "", resources=binding.resources)


def kitchen(*lights: str, live: bool = True) -> Home:
    entries = [RegistryEntry(light, "kitchen") for light in lights]
    return a_home("light.a", "light.b", areas=[Area("kitchen", "Kitchen")], registry=entries, live=live)


IN_THE_KITCHEN: dict[str, Any] = {"domain": "light", "service": "turn_on", "target": {"area_id": "kitchen"}}


async def test_the_hands_are_those_of_the_three_tools_that_act() -> None:
    made = registered_tools(kitchen())
    assert list(made) == ["ha_call_service", "ha_activate_scene", "ha_fire_event"]
    assert all(registered.undo and registered.service == "home_assistant" for registered in made.values())


async def test_a_binding_names_the_service_and_every_target() -> None:
    binding, _ = await bound(kitchen("light.b", "light.a"), **IN_THE_KITCHEN)
    assert binding.resources == {"service": "light.turn_on", "targets": ["light.a", "light.b"]}
    assert binding.signatures == ("ha_call_service(light.turn_on, light.a)", "ha_call_service(light.turn_on, light.b)")


async def test_before_the_act_the_states_of_all_targets_are_kept() -> None:
    home = kitchen("light.a", "light.b")
    home.put(entity("light.a", "on", brightness=9, friendly_name="A", color_mode=None))
    binding, call = await bound(home, **IN_THE_KITCHEN)
    assert binding.keep
    kept = await binding.keep(call)
    assert kept is not None
    assert orjson.loads(kept) == {
        "at": NOON,
        "before": {
            "light.a": {"state": "on", "attributes": {"brightness": 9}},
            "light.b": {"state": "off", "attributes": {}},
        },
        "beyond": False,
    }


@pytest.mark.parametrize("lights", [("light.a", "light.b"), ("light.b",), ()])
async def test_a_call_that_would_reach_something_else_by_now_is_not_sent(lights: tuple[str, ...]) -> None:
    home = kitchen("light.a")
    binding, call = await bound(home, **IN_THE_KITCHEN)
    home.learn(registry=[RegistryEntry(light, "kitchen") for light in lights])
    assert binding.keep
    assert binding.act
    for step in (binding.keep, binding.act):
        with pytest.raises(Moved, match="nothing was sent") as moved:
            await step(call)
        assert moved.value.code == 2006


async def test_a_call_that_names_a_place_waits_until_the_registries_have_been_read_again() -> None:
    home = kitchen("light.a")
    home.settle(False)
    binding = asyncio.create_task(bound(home, **IN_THE_KITCHEN))
    await asyncio.sleep(0)
    home.learn(registry=[RegistryEntry("light.b", "kitchen")])
    home.settle(True)
    assert (await soon(binding))[0].resources["targets"] == ["light.b"]


async def test_a_call_that_names_a_place_is_not_sent_while_the_registries_are_known_to_be_old() -> None:
    home = kitchen("light.a")
    in_the_kitchen, place = await bound(home, **IN_THE_KITCHEN)
    home.settle(False)
    for step in (in_the_kitchen.keep, in_the_kitchen.act):
        assert step
        with pytest.raises(Moved, match="still being read"):
            await step(place)
    with pytest.raises(ToolError) as refused:
        await bound(home, bounds=HomeBounds(settled_s=0), **IN_THE_KITCHEN)
    assert refused.value.code == 2006
    by_name, call = await bound(home, domain="light", service="turn_on", entity_id="light.a")
    assert by_name.keep
    assert await by_name.keep(call)


async def test_players_that_play_together_are_kept_each_for_itself_and_groups_are_not() -> None:
    together = ["media_player.a", "media_player.b"]
    players = [entity(one, "playing", volume_level=0.5, group_members=together) for one in together]
    home = a_home(*players, entity("media_player.all", "playing", entity_id=together))
    binding, call = await bound(home, domain="media_player", service="join", entity_id="media_player.all")
    assert binding.keep
    kept = await binding.keep(call)
    assert kept is not None
    playing = {"state": "playing", "attributes": {"volume_level": 0.5}}
    assert orjson.loads(kept)["before"] == dict.fromkeys(together, playing)


async def test_a_call_of_a_service_that_has_gone_by_now_is_not_sent() -> None:
    home = kitchen("light.a")
    binding, call = await bound(home, **IN_THE_KITCHEN)
    home.learn(services=[])
    assert binding.act
    with pytest.raises(Moved):
        await binding.act(call)


async def test_while_the_home_is_out_of_reach_only_single_entities_can_be_judged() -> None:
    home = kitchen("light.a", live=False)
    binding, _ = await bound(home, domain="light", service="turn_on", entity_id="light.a")
    assert binding.resources["targets"] == ["light.a"]
    with pytest.raises(ToolError) as refused:
        await bound(home, **IN_THE_KITCHEN)
    assert (refused.value.code, "out of reach" in str(refused.value)) == (2006, True)


async def test_before_the_home_was_read_nothing_can_be_judged() -> None:
    with pytest.raises(ToolError) as refused:
        await bound(Home(HandClock()), **IN_THE_KITCHEN)
    assert refused.value.code == 2006


@pytest.mark.parametrize("scene", ["light.a", "scene", "scene.A", "", "scene.a, scene.b"])
async def test_what_is_no_scene_cannot_be_activated(scene: str) -> None:
    with pytest.raises(ToolError) as refused:
        await bound(a_home("light.a", "scene.a"), "ha_activate_scene", entity_id=scene)
    assert refused.value.code == 2002


@pytest.mark.parametrize(
    "event_type",
    [
        "state_changed",
        "state_reported",
        "device_registry_updated",
        "core_config_updated",
        "service_removed",
        "homeassistant_stop",
        "call_service",
        "component_loaded",
        "mobile_app_notification_action",
        "ios.action_fired",
        "telegram_callback",
    ],
)
async def test_events_by_which_the_home_or_a_person_speaks_are_not_fired(event_type: str) -> None:
    with pytest.raises(ToolError) as refused:
        await bound(a_home(), "ha_fire_event", event_type=event_type)
    assert refused.value.code == 2002


@pytest.mark.parametrize("event_type", ["doorbell_rang", "my.event", "updated_menu", "statement"])
async def test_other_events_may_be_judged(event_type: str) -> None:
    binding, _ = await bound(a_home(), "ha_fire_event", event_type=event_type)
    assert binding.signatures == (f"ha_fire_event({event_type})",)
