"""Undoing on a real Home Assistant: every kind of entity that a scene or an inverse service can bring back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate
from agent_gate.services.home_assistant.restorable import Moment
from tests.gates import until
from tests.real.gates_at_home import a_real_gate, call, client_of
from tests.real.homes import RealHome


@pytest.fixture
async def gate(tmp_path: Path, real_home: RealHome) -> AsyncIterator[Gate]:
    async with a_real_gate(tmp_path, real_home) as gate:
        yield gate


KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a lamp's state": ("light.turn_off", "light.ceiling_lights", {}),
    "a lamp's brightness": ("light.turn_on", "light.ceiling_lights", {"brightness_pct": 10}),
    "a lamp's colour": ("light.turn_on", "light.ceiling_lights", {"rgb_color": [0, 0, 255]}),
    "a lamp's effect": ("light.turn_on", "light.bed_light", {"effect": "rainbow"}),
    "a lamp's white": ("light.turn_on", "light.office_rgbw_lights", {"rgbw_color": [1, 2, 3, 4]}),
    "a switch": ("switch.toggle", "switch.ac", {}),
    "a lock": ("lock.unlock", "lock.openable_lock", {}),
    "a thermostat's temperature": ("climate.set_temperature", "climate.heatpump", {"temperature": 25}),
    "a thermostat's mode": ("climate.set_hvac_mode", "climate.hvac", {"hvac_mode": "off"}),
    "a thermostat's preset": ("climate.set_preset_mode", "climate.ecobee", {"preset_mode": "away"}),
    "a fan": ("fan.turn_on", "fan.ceiling_fan", {"percentage": 66}),
    "a humidifier": ("humidifier.set_humidity", "humidifier.dehumidifier", {"humidity": 40}),
    "a helper that is on or off": ("input_boolean.toggle", "input_boolean.guest_mode", {}),
    "a helper with a number": ("input_number.set_value", "input_number.burst", {"value": 7}),
    "a number": ("number.set_value", "number.volume", {"value": 30}),
    "a choice": ("select.select_option", "select.speed", {"option": "ludicrous_speed"}),
    "a text": ("text.set_value", "text.text", {"value": "other"}),
    "a player's volume": ("media_player.volume_set", "media_player.walkman", {"volume_level": 0.2}),
    "a player's state": ("media_player.media_pause", "media_player.walkman", {}),
    "a heater of water": ("water_heater.set_temperature", "water_heater.demo_water_heater", {"temperature": 50}),
    "a siren": ("siren.toggle", "siren.siren", {}),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_before_comes_back(gate: Gate, kind: str) -> None:
    service, entity_id, data = KINDS[kind]
    home = client_of(gate).home
    before = Moment.of(home.entities[entity_id])
    changed = await call(gate, service, entity_id=entity_id, data=data)
    assert changed.ok, changed.error
    assert Moment.of(home.entities[entity_id]) != before
    undone = await gate.call("gate.revert", call_id=changed.call_id)
    assert undone.ok, undone.error
    assert undone.data["restored"] == {entity_id: before.state}
    assert Moment.of(home.entities[entity_id]).is_like(before)


async def test_a_cover_goes_back_to_its_position_and_keeps_its_tilt(gate: Gate) -> None:
    window = "cover.living_room_window"
    home = client_of(gate).home
    before = Moment.of(home.entities[window])
    changed = await call(gate, "cover.set_cover_tilt_position", entity_id=window, data={"tilt_position": 70})
    await until(lambda: home.entities[window].attributes["current_tilt_position"] == 70)
    undone = await gate.call("gate.revert", call_id=changed.call_id)
    assert undone.ok, undone.error
    await until(lambda: Moment.of(home.entities[window]) == before)


async def test_what_an_alarm_wants_a_code_for_is_refused_in_its_own_words(gate: Gate) -> None:
    alarm = "alarm_control_panel.security"
    armed = await call(gate, "alarm_control_panel.alarm_arm_away", entity_id=alarm, data={"code": "1234"})
    refused = await gate.call("gate.revert", call_id=armed.call_id)
    assert refused.error is not None
    assert "Invalid alarm code" in refused.error.detail
    disarmed = await call(gate, "alarm_control_panel.alarm_disarm", entity_id=alarm, data={"code": "1234"})
    assert disarmed.ok, disarmed.error


async def test_what_cannot_be_taken_back_is_said(gate: Gate) -> None:
    pressed = await call(gate, "button.press", entity_id="button.push")
    refused = await gate.call("gate.revert", call_id=pressed.call_id)
    assert refused.error is not None
    assert "cannot bring back a `button`" in refused.error.detail
