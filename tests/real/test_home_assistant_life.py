"""The connection to a real Home Assistant: restarts, floods, TLS, and tokens that may less or nothing any more."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.errors import ConfigError
from agent_gate.services.home_assistant.bounds import HomeBounds
from tests.contract.houses import a_raw
from tests.gates import rows, soon
from tests.real.gates_at_home import a_real_gate, call, client_of, done, house_of, in_time, state_of
from tests.real.homes import RealHome, started

BED, GUEST = "light.bed_light", "input_boolean.guest_mode"


async def test_b8_a_restart_while_a_call_waits_leaves_its_outcome_unknown_and_the_home_comes_back_whole(
    tmp_path: Path, real_home: RealHome
) -> None:
    async with a_real_gate(tmp_path, real_home) as gate:
        home, least = client_of(gate).home, []
        before = set(home.entities)
        async with a_raw(house_of(real_home)) as raw:
            await raw.ask("subscribe_events", event_type="state_changed")
            waiting = asyncio.create_task(call(gate, "script.slow"))
            await raw.event(lambda event: event["data"]["entity_id"] == "script.slow")
            await raw.begin("call_service", domain="homeassistant", service="restart")
            outcome = await soon(waiting)
        assert outcome.error is not None
        assert (outcome.status.value, outcome.error.code) == ("unknown", 2007)
        stale = await done(gate, "ha_get_state", entity_id=BED)
        assert stale["live"] is False
        acted = await call(gate, "light.turn_on", entity_id=BED)
        assert acted.error is not None
        assert acted.error.code == 2006

        def is_back() -> bool:
            least.append(len(home.entities))
            return home.is_live

        await in_time(is_back)
        assert min(least) == len(before)
        assert before <= set(home.entities)
        fresh = await done(gate, "ha_get_state", entity_id=BED)
        assert (fresh["live"], fresh["age_s"]) == (True, 0)
        assert (await call(gate, "input_boolean.toggle", entity_id=GUEST)).ok
        [command] = rows(gate, "SELECT * FROM ha_command_log WHERE service = 'slow'")
        assert outcome.error.detail in command["result"]


async def test_a_restart_and_a_stop_are_answered_and_their_outcome_is_known(tmp_path: Path) -> None:
    with started(tmp_path / "home") as home:
        async with a_real_gate(tmp_path, home) as gate:
            known = client_of(gate).home
            restarted = await call(gate, "homeassistant.restart")
            assert (restarted.status.value, restarted.data["changed"]) == ("success", [])
            await in_time(lambda: not known.is_live)
            await in_time(lambda: known.is_live)
            stopped = await call(gate, "homeassistant.stop")
            assert (stopped.status.value, stopped.error) == ("success", None)
            await in_time(lambda: not known.is_live)


async def test_a4_a5_a_flood_that_makes_the_server_drop_us_is_followed_by_a_whole_copy(
    tmp_path: Path, real_home: RealHome, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_real_gate(tmp_path, real_home) as gate, a_raw(house_of(real_home)) as raw:
        home = client_of(gate).home
        with caplog.at_level(logging.INFO, "agent_gate"):
            await raw.call("burst.run", count=6_000)
            await in_time(lambda: "home assistant cannot be reached" in caplog.text)
            await in_time(lambda: home.is_live and home.entities["sensor.burst_99"].state == "5999")
        states = await raw.states()
        assert {one: home.entities[one].state for one in states if one.startswith("sensor.burst_")} == {
            one: state["state"] for one, state in states.items() if one.startswith("sensor.burst_")
        }
        await raw.call("burst.run", count=3_500)
        await in_time(lambda: home.entities["sensor.burst_99"].state == "3499")
        await raw.call("burst.clear")
        await in_time(lambda: "sensor.burst_99" not in home.entities)
        assert home.is_live


async def test_a3_pings_are_sent_with_an_id_and_answered_with_a_pong(tmp_path: Path, real_home: RealHome) -> None:
    log = real_home.directory / "hass.out"
    async with a_raw(house_of(real_home)) as raw:
        begun = len(log.read_text())
        await raw.ask("call_service", **_logging("debug"))
        try:
            async with a_real_gate(tmp_path, real_home, websocket_ping_interval=1) as gate:
                client_of(gate)._connection.bounds = HomeBounds(pong_s=0.9)
                first = client_of(gate)._connection.link
                await in_time(lambda: log.read_text()[begun:].count('"type":"pong"') >= 3)
                assert client_of(gate)._connection.link is first
        finally:
            await raw.ask("call_service", **_logging("warning"))


def _logging(level: str) -> dict[str, Any]:
    """The call that makes the server tell in its log what it hears and says."""
    loggers = {"homeassistant.components.websocket_api.http.connection": level}
    return {"domain": "logger", "service": "set_level", "service_data": loggers}


async def test_a2_the_scheme_follows_the_address_and_verify_ssl_says_whether_certificates_are_checked(
    tmp_path: Path, real_home_with_tls: RealHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = real_home_with_tls
    assert home.url.startswith("https://")
    async with a_real_gate(tmp_path, home, name="unchecked.db") as gate:
        assert client_of(gate).home.is_live
        assert (await call(gate, "input_boolean.toggle", entity_id=GUEST)).ok
        assert await done(gate, "ha_render_template", template="{{ 1 + 1 }}") == "2"
    async with a_real_gate(tmp_path, home, name="stranger.db", verify_ssl=True) as gate:
        assert not client_of(gate).home.is_live
        assert "certificate" in client_of(gate).trouble
        assert (await gate.call("ha_get_state", entity_id=BED)).error is not None
    monkeypatch.setenv("SSL_CERT_FILE", str(home.authority))
    async with a_real_gate(tmp_path, home, name="known.db", verify_ssl=True) as gate:
        assert client_of(gate).home.is_live
        assert await done(gate, "ha_render_template", template="{{ 1 + 1 }}") == "2"
    async with a_real_gate(tmp_path, home, name="plain.db", url=home.url.replace("https", "http")) as gate:
        assert not client_of(gate).home.is_live
        assert client_of(gate).trouble.startswith("home assistant cannot be reached")


async def test_b12_a_limited_token_reads_and_controls_and_is_told_what_needs_an_administrator(
    tmp_path: Path, real_home: RealHome
) -> None:
    async with a_real_gate(tmp_path, real_home, token=real_home.limited_token) as gate:
        assert (await done(gate, "ha_get_state", entity_id=BED))["live"] is True
        assert (await call(gate, "input_boolean.toggle", entity_id=GUEST)).ok
        template = await gate.call("ha_render_template", template="{{ 1 }}")
        event = await gate.call("ha_fire_event", event_type="doorbell_rang")
        restart = await call(gate, "homeassistant.restart")
        for outcome in (template, event, restart):
            assert outcome.error is not None
            assert outcome.error.code == 2003
        assert template.error is not None
        assert "administrator" in template.error.detail
        assert client_of(gate).trouble == ""
        assert (await done(gate, "ha_get_state", entity_id=BED))["live"] is True


async def test_a_token_that_may_only_read_reads_and_its_calls_are_refused(tmp_path: Path, real_home: RealHome) -> None:
    async with a_real_gate(tmp_path, real_home, token=real_home.readonly_token) as gate:
        before = await state_of(gate, GUEST)
        outcome = await call(gate, "input_boolean.toggle", entity_id=GUEST)
        assert outcome.error is not None
        assert outcome.error.code == 2003
        assert "nauthorized" in outcome.error.detail
        assert await state_of(gate, GUEST) == before
        assert client_of(gate).trouble == ""


async def test_b9_a_token_that_is_not_good_ends_the_start_with_the_servers_words(
    tmp_path: Path, real_home: RealHome
) -> None:
    async def begun() -> None:
        async with a_real_gate(tmp_path, real_home, token="eyJhbGciOi.not.good"):
            pass

    with pytest.raises(RuntimeError, match="Invalid access token or password") as raised:
        await begun()
    assert isinstance(raised.value, ConfigError)
    assert "not.good" not in str(raised.value)


async def test_b9_a_token_that_is_revoked_is_not_shown_again(
    tmp_path: Path, real_home: RealHome, caplog: pytest.LogCaptureFixture
) -> None:
    house = house_of(real_home)
    token = await house.new_token()
    async with a_real_gate(tmp_path, real_home, token=token) as gate:
        client = client_of(gate)
        assert client.home.is_live
        with caplog.at_level(logging.INFO, "agent_gate"):
            await house.revoke(token)
            await in_time(lambda: "Invalid access token" in client.trouble)
        attempts = _failed_logins(real_home)
        outcomes = [await call(gate, "input_boolean.toggle", entity_id=GUEST) for _ in range(3)]
        outcomes.append(await gate.call("ha_render_template", template="x"))
        assert [outcome.error.code for outcome in outcomes if outcome.error] == [2006] * 4
        assert _failed_logins(real_home) == attempts
        stale = await done(gate, "ha_get_state", entity_id=BED)
        assert stale["live"] is False
        assert token not in caplog.text


def _failed_logins(home: RealHome) -> int:
    return (home.directory / "hass.out").read_text().count("Login attempt or request with invalid authentication")


async def test_a_change_is_seen_by_the_next_read(tmp_path: Path, real_home: RealHome) -> None:
    """What the socket told before the result of a call is in the copy when the call returns."""
    async with a_real_gate(tmp_path, real_home) as gate:
        for _ in range(20):
            wanted = "off" if await state_of(gate, GUEST) == "on" else "on"
            await call(gate, f"input_boolean.turn_{wanted}", entity_id=GUEST)
            assert await state_of(gate, GUEST) == wanted


async def test_c5_an_entity_that_goes_and_one_that_comes_are_seen(tmp_path: Path, real_home: RealHome) -> None:
    house = house_of(real_home)
    async with a_real_gate(tmp_path, real_home) as gate, a_raw(house) as raw:
        home, fan, new = client_of(gate).home, "fan.living_room_fan", "fan.lounge_fan"
        steps: list[tuple[str, str]] = [(fan, new), (new, fan)]
        for old_id, new_id in steps:
            fields: dict[str, Any] = {"entity_id": old_id, "new_entity_id": new_id}
            await raw.ask("config/entity_registry/update", **fields)
            await in_time(_gone_and_come(home.entities, old_id, new_id))


def _gone_and_come(entities: Any, old_id: str, new_id: str) -> Any:
    return lambda: old_id not in entities and new_id in entities
