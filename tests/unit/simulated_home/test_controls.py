"""What a test may do to a simulated home: break it, hold it, restart it, and let time have passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from agent_gate.simulated_home import Area, Device, RegistryEntry, Running, SimulatedHome, simulated_home
from tests.contract.houses import House, a_call, a_raw, eventually
from tests.gates import soon, until
from tests.scenarios.certificates import Authority

GUEST, BED = "input_boolean.guest_mode", "light.bed_light"


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as running:
        yield running


async def test_a_dropped_connection_breaks_without_a_word_and_the_next_one_works(running: Running) -> None:
    house = House.named(running)
    async with a_raw(house) as raw:
        running.home.drop_connections()
        assert await raw.closed() is None
    async with a_raw(house) as again:
        assert (await again.reply("ping"))["type"] == "pong"
    await until(lambda: not running.home.life.connections)


async def test_held_answers_come_after_their_calls_were_carried_out(running: Running) -> None:
    house, home = House.named(running), running.home
    async with a_raw(house) as raw:
        home.hold_answers()
        number = await raw.begin("call_service", **a_call("input_boolean.turn_on", {"entity_id": GUEST}))
        by_rest = asyncio.create_task(house.rest("POST", "/api/services/light/turn_on", json={"entity_id": BED}))
        await until(lambda: (home.states[GUEST].state, home.states[BED].state) == ("on", "on"))
        assert (await raw.reply("ping"))["type"] == "pong"
        assert not by_rest.done()
        home.release_answers()
        assert (await raw.answer_to(number))["success"]
        assert (await soon(by_rest)).status_code == 200


async def test_a_silent_server_answers_nothing_until_it_speaks_again(running: Running) -> None:
    house, home = House.named(running), running.home
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="state_changed")
        home.fall_silent()
        number = await raw.begin("ping")
        home.set_state(GUEST, "on")
        asked = asyncio.create_task(house.rest("GET", "/api/states"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.connection.recv(), 0.05)
        assert not asked.done()
        home.speak_again()
        assert (await raw.answer_to(number))["type"] == "pong"
        assert len(raw.events) == 1
        assert (await soon(asked)).status_code == 200


async def test_a_restart_forgets_what_was_not_furnished_and_is_refused_meanwhile(running: Running) -> None:
    house, home = House.named(running), running.home
    await house.rest("POST", "/api/states/sensor.made_up", json={"state": "1"})
    home.burst(10)
    home.set_state(GUEST, "on")
    home.restart(down_s=0.2)
    await until(lambda: home.life.phase == "NOT_RUNNING")
    with pytest.raises(httpx2.TransportError):
        await house.rest("GET", "/api/config")
    await eventually(lambda: house.rest("GET", "/api/config"))
    await soon(home.life.running.wait())
    assert home.states[GUEST].state == "on"
    assert not any(one.startswith(("sensor.made_up", "sensor.burst_")) for one in home.states)


async def test_the_end_of_a_start_is_an_event(running: Running) -> None:
    house, home = House.named(running), running.home
    home.restart(hold=True)

    async def is_half_started() -> bool:
        return bool((await house.rest("GET", "/api/config")).json()["state"] == "NOT_RUNNING" and home.states)

    await eventually(is_half_started)
    async with a_raw(house) as raw:
        await raw.ask("subscribe_events", event_type="homeassistant_started")
        home.finish_start()
        await raw.event(lambda event: event["event_type"] == "homeassistant_started")
        assert (await raw.ask("get_config"))["state"] == "RUNNING"


async def test_it_speaks_tls_and_under_a_path(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with simulated_home(tls=authority.server("127.0.0.1"), prefix="/home") as running:
        assert running.url.startswith("https://")
        assert running.url.endswith("/home")
        async with httpx2.AsyncClient(verify=authority.client(), trust_env=False) as client:
            headers = {"Authorization": f"Bearer {running.token}"}
            answer = await client.get(f"{running.url}/api/", headers=headers)
            assert answer.json() == {"message": "API running."}
        async with a_raw(House.named(running), ssl=authority.client()) as raw:
            assert (await raw.reply("ping"))["type"] == "pong"


async def test_a_newer_server_leaves_words_to_translations(running: Running) -> None:
    running.home.leaves_words_to_translations = True
    async with a_raw(House.named(running)) as raw:
        services = await raw.ask("get_services")
        assert "description" not in services["light"]["turn_on"]
        assert services["script"]["movie_time"]["name"] == "Movie time"
        words = (await raw.ask("frontend/get_translations", language="en", category="services"))["resources"]
        assert words["component.light.services.turn_on.name"] == "Turn on"


async def test_services_come_and_go_with_events(running: Running) -> None:
    home = running.home
    async with a_raw(House.named(running)) as raw:
        for event in ("service_registered", "service_removed"):
            await raw.ask("subscribe_events", event_type=event)
        service = home.services["script", "answer"]
        home.unregister("script", "answer")
        home.register(service)
        await raw.ask("get_config")
        told = [(one["event"]["event_type"], one["event"]["data"]["service"]) for one in raw.events]
        assert told == [("service_removed", "answer"), ("service_registered", "answer")]


async def test_a_home_can_be_furnished_otherwise() -> None:
    lamp = Device("Lamp", "attic")
    home = SimulatedHome(
        entities={"light.lamp": ("off", {"friendly_name": "Lamp"})},
        areas=[Area("attic", "Attic")],
        devices=[lamp],
        entries=[RegistryEntry("light.lamp", device_id=lamp.id)],
    )
    async with simulated_home(home) as running, a_raw(House.named(running)) as raw:
        await raw.call("light.turn_on", {"area_id": "attic"})
        assert {one: state["state"] for one, state in (await raw.states()).items()} == {"light.lamp": "on"}
        assert [(made.domain, made.service) for made in home.calls] == [("light", "turn_on")]


async def test_the_past_can_be_made_up(running: Running) -> None:
    home, house = running.home, House.named(running)
    now = home.now()
    home.recorder.backdate(GUEST, [(now - 7_200, "on"), (now - 3_600, "off")])
    answer = await house.rest("GET", f"/api/history/period/2001-01-01T00:00:00Z?filter_entity_id={GUEST}")
    assert answer.json() == []
    begin = "2001-01-01T00:00:00Z?end_time=2096-01-01T00:00:00Z&minimal_response&filter_entity_id="
    ((*rows,),) = (await house.rest("GET", f"/api/history/period/{begin}{GUEST}")).json()
    assert [row["state"] for row in rows] == ["on", "off"]


async def test_what_nobody_thought_of_is_told_as_the_real_server_does(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        raise LookupError("no such thing")

    monkeypatch.setitem(running.home.scripts, "script.answer", broken)
    async with a_raw(House.named(running)) as raw:
        error = await raw.refused("call_service", **a_call("script.answer"))
        assert error == {"code": "unknown_error", "message": "no such thing"}


async def test_tokens_look_alike_at_their_beginning_and_are_not_shown(running: Running) -> None:
    tokens = [running.token, running.limited_token, running.readonly_token]
    assert {token[:8] for token in tokens} == {"eyJhbGci"}
    assert len(set(tokens)) == 3
    assert running.token not in repr(running.home.owner)
