"""Staying connected: what happens when the connection goes, and when it cannot be had."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.bounds import HomeBounds
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.faults import AuthRefused, Unreachable
from agent_gate.services.home_assistant.sync import Sync
from agent_gate.simulated_home import Area, RegistryEntry, SimulatedHome, simulated_home
from agent_gate.system.clock import SystemClock
from tests.gates import soon, until
from tests.scenarios.certificates import Authority
from tests.scripted_home import TOKEN, NotAnswered, Pauses, ScriptedHome, a_client, changed, state

FIRST_TRY, PING, POLL = 0.8, 30, 60


def states_of(client: HomeClient) -> dict[str, str]:
    return {entity_id: client.home.entities[entity_id].state for entity_id in client.home.sorted_ids()}


async def test_after_a_loss_the_client_subscribes_and_reads_again_and_knows_what_it_missed() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.states = [state("light.a", "off"), state("light.b", "off")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.is_down = True
        await home.drop()
        await until(lambda: not client.home.is_live)
        assert "cannot be reached" in client.trouble
        home.states = [state("light.a", "on", "10")]
        home.is_down = False
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.is_live)
        assert states_of(client) == {"light.a": "on"}
        await home.say(home.event(changed("light.a", state("light.a", "off", "11"))))
        await until(lambda: states_of(client) == {"light.a": "off"})
        assert client.trouble == ""


async def test_attempts_grow_rarer_up_to_a_minute_and_begin_anew_after_a_success() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.is_down = True
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        for seconds in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 48.0):
            await pauses.end(seconds)
        await until(lambda: pauses.asked.count(48.0) == 2)
        home.is_down = False
        await pauses.end(48.0)
        await until(lambda: client.home.is_live)
        await home.drop()
        await pauses.end(0.8)
        await until(lambda: client.home.is_live)


async def test_a_connection_that_never_comes_into_step_does_not_begin_anew() -> None:
    home, pauses = ScriptedHome(), Pauses()

    def fail(_: dict[str, Any]) -> Any:
        home.connections[-1].transport.abort()
        raise NotAnswered

    home.answers["get_states"] = fail
    async with home.serving(), a_client(home.url, pause=pauses):
        for seconds in (0.8, 1.6, 3.2):
            await pauses.end(seconds)
    assert home.attempts >= 3


async def test_while_the_websocket_is_down_the_home_is_polled_and_each_poll_replaces_everything() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.is_down = True
    home.states = [state("light.a", "off"), state("light.b", "off")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        assert states_of(client) == {"light.a": "off", "light.b": "off"}
        assert (client.home.is_ready, client.home.is_live, client.home.version) == (True, False, "2024.3.3")
        assert "cannot be reached: it answers with status 502" in client.trouble
        home.states = [state("light.b", "on", "01")]
        await pauses.end(POLL)
        await until(lambda: states_of(client) == {"light.b": "on"})


async def test_a_poll_of_a_server_that_still_starts_changes_nothing() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.states = [state("light.a", "off"), state("light.b", "off")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.is_down, home.phase, home.states = True, "NOT_RUNNING", []
        await home.drop()
        await until(lambda: POLL in pauses.asked)
        assert states_of(client) == {"light.a": "off", "light.b": "off"}
        assert home.rest_asked == ["/api/config"]


async def test_a_poll_that_is_under_way_when_the_connection_is_back_puts_nothing_old_in() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.states = [state("light.a", "old")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.is_down = True
        home.may_tell_states.clear()
        await home.drop()
        await until(lambda: home.rest_asked == ["/api/config", "/api/states"])
        home.is_down = False
        home.states = [state("light.a", "new", "10")]
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.is_live)
        home.states = [state("light.a", "old")]
        home.may_tell_states.set()
        for _ in range(50):
            assert await client.command("get_config") == {"state": "RUNNING"}
        assert states_of(client) == {"light.a": "new"}
        assert POLL not in pauses.asked


async def test_a_server_that_is_not_there_is_waited_for_in_the_background() -> None:
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving():
        url = home.url
    async with a_client(url, pause=pauses) as client:
        assert (client.home.is_ready, client.home.is_live) == (False, False)
        assert client.trouble == "home assistant cannot be reached: connection refused"
        with pytest.raises(Unreachable, match="connection refused"):
            await client.command("get_config")


async def test_a_token_that_is_refused_at_the_start_is_raised_and_not_tried_again() -> None:
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving():
        client = HomeClient(HomeAssistantConfig(home.url), "not-the-token", SystemClock(), pause=pauses)
        with pytest.raises(AuthRefused, match="Invalid access token or password"):
            await soon(client.start())
    assert (home.attempts, home.rest_asked, pauses.asked) == (1, [], [])


async def test_a_token_that_is_revoked_meanwhile_is_final_and_the_server_is_left_in_peace() -> None:
    home, pauses = ScriptedHome(), Pauses()
    home.states = [state("light.a", "on")]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.token = "another one now"
        await home.drop()
        await pauses.end(FIRST_TRY)
        await until(lambda: "refuses the token" in client.trouble)
        assert "start it again" in client.trouble
        asked = len(home.rest_asked)
        for refused in (
            client.command("get_config"),
            client.history(["light.a"], "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"),
            client.render("{{ 1 }}"),
            client.fire_event("e", {}),
            client.call_service("light", "turn_on", target=None, data={}, wants_response=False, timeout_s=5),
        ):
            with pytest.raises(Unreachable, match="refuses the token"):
                await soon(refused)
        assert (home.attempts, len(home.rest_asked)) == (2, asked)
        assert asked <= 1
        assert pauses.asked.count(FIRST_TRY) == 1
        assert not client.home.is_live


async def test_a_server_that_says_nothing_any_more_is_left_and_tried_anew() -> None:
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        await pauses.end(PING)
        await until(lambda: pauses.asked.count(PING) == 2)
        home.answers["ping"] = lambda _: None
        client._connection.bounds = HomeBounds(pong_s=0.02)
        await pauses.end(PING)
        await until(lambda: not client.home.is_live)
        client._connection.bounds = client.bounds
        assert "`ping` was not answered" in client.trouble
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.is_live)


async def test_a_burst_that_makes_the_server_drop_us_costs_a_reconnect_and_no_change() -> None:
    pauses = Pauses()
    async with simulated_home() as running, a_client(running.url, running.token, pause=pauses) as client:
        running.home.burst(6_000, entities=300)
        await pauses.end(FIRST_TRY)
        await until(lambda: client.home.is_live)
        assert len([one for one in client.home.sorted_ids() if one.startswith("sensor.burst_")]) == 300
        assert states_of(client) == {one.entity_id: one.state for one in running.home.states.values()}


async def test_a_burst_that_the_server_can_queue_is_taken_without_a_reconnect() -> None:
    pauses = Pauses()
    async with simulated_home() as running, a_client(running.url, running.token, pause=pauses) as client:
        running.home.burst(3_500, entities=7)
        await until(
            lambda: client.home.entity("sensor.burst_6") and client.home.entities["sensor.burst_6"].state == "3499"
        )
        assert client.home.is_live
        assert FIRST_TRY not in pauses.asked


async def test_through_a_restart_of_the_server_nothing_is_dropped_until_it_runs_again() -> None:
    home = SimulatedHome()

    async def pause(seconds: float) -> None:
        if seconds == FIRST_TRY:
            await until(lambda: home.life.restarts == 1)
        await _shortly(seconds)

    async with simulated_home(home) as running, a_client(running.url, running.token, pause=pause) as client:
        before = set(client.home.entities)
        home.burst(1, entities=1)
        await until(lambda: client.home.entity("sensor.burst_0"))
        home.restart(hold=True)
        await until(lambda: home.life.restarts == 1 and home.life.connections)
        await until(lambda: "still starts" in client.trouble)
        assert set(client.home.entities) == {*before, "sensor.burst_0"}
        assert (client.home.is_ready, client.home.is_live) == (True, False)
        home.finish_start()
        await until(lambda: client.home.is_live)
        assert set(client.home.entities) == before


async def test_a_limited_token_keeps_in_step_too() -> None:
    async with simulated_home() as running, a_client(running.url, running.limited_token) as client:
        assert (client.home.is_live, client.trouble) == (True, "")
        running.home.set_state("light.bed_light", "on")
        await until(lambda: client.home.entities["light.bed_light"].state == "on")


async def test_a_home_behind_tls_and_a_path_is_reached_by_both_ways(tmp_path: Path) -> None:
    tls, pauses = Authority(tmp_path).server("127.0.0.1"), Pauses()
    async with simulated_home(tls=tls, prefix="/ha") as running, a_client(running.url, running.token) as client:
        assert client.home.is_live
        assert await client.render("{{ 1 + 1 }}") == "2"
    async with (
        simulated_home(tls=tls) as running,
        a_client(running.url, running.token, pause=pauses, verify_ssl=True) as client,
    ):
        assert not client.home.is_ready
        assert "certificate" in client.trouble


async def test_a_mistake_of_the_gate_s_own_costs_a_reconnect_and_is_told_by_its_kind_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    home, pauses = ScriptedHome(), Pauses()
    with patch.object(Sync, "_read_parts", side_effect=ZeroDivisionError("hunter2")):
        async with home.serving(), a_client(home.url, pause=pauses) as client:
            assert "cannot be used (ZeroDivisionError)" in client.trouble
            assert not client.home.is_live
            await pauses.end(FIRST_TRY)
            await until(lambda: home.attempts == 2)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_in_whichever_order_the_home_is_in_step_in_the_end(seed: int) -> None:
    chance, home = random.Random(seed), SimulatedHome()
    ids = [f"sensor.made_up_{n}" for n in range(8)]

    def step() -> None:
        match chance.randrange(12):
            case 0 | 1:
                home.drop_connections()
            case 2:
                home.burst(chance.choice((10, 500, 5_000)), entities=20)
            case 3:
                home.remove(chance.choice(ids))
            case 4:
                area_id = chance.choice(("kitchen", "bedroom", "cellar"))
                home.put_area(Area(area_id, f"Room {chance.randrange(9)}"))
            case 5:
                home.put_entry(RegistryEntry(chance.choice(ids), area_id=chance.choice(("kitchen", "nowhere", None))))
            case _:
                home.set_state(chance.choice(ids), str(chance.random()))

    async with simulated_home(home) as running, a_client(running.url, running.token, pause=_shortly) as client:
        for _ in range(80):
            step()
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        await until(lambda: client.home.is_live and states_of(client) == _states_in(home))
        await until(lambda: {one.name for one in client.home.areas.values()} == _area_names_in(home))
        await until(lambda: set(client.home.registry) == set(home.registries.entries))


def _states_in(home: SimulatedHome) -> dict[str, str]:
    return {entity_id: home.states[entity_id].state for entity_id in sorted(home.states)}


def _area_names_in(home: SimulatedHome) -> set[str]:
    return {area.name for area in home.registries.areas.values()}


async def test_logs_tell_of_each_loss_once_and_never_show_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    home, pauses = ScriptedHome(), Pauses()
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        home.is_down = True
        await home.drop()
        for seconds in (0.8, 1.6, 3.2):
            await pauses.end(seconds)
        await until(lambda: 6.4 in pauses.asked)
        home.is_down = False
        await pauses.end(6.4)
        await until(lambda: client.home.is_live)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        "home assistant cannot be reached: the connection was lost",
        "home assistant cannot be reached: it answers with status 502; it may be starting",
        "connected to home assistant 2024.3.3",
    ]
    assert TOKEN not in caplog.text
    assert "token sha256:" in caplog.text


async def _shortly(_: float) -> None:
    await asyncio.sleep(0.005)
