"""Furniture of the home when nothing else is said; ids and states are those of Home Assistant's demo."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from agent_gate.model.tool import Json
from agent_gate.simulated_home.calling import call_service
from agent_gate.simulated_home.registry import Area, Device, RegistryEntry
from agent_gate.simulated_home.services import Call

Furniture = tuple[str, Mapping[str, Json]]


def _light(name: str, brightness: int | None = None, **attributes: Json) -> Furniture:
    color = {"color_mode": "hs" if brightness else None, "rgb_color": [255, 63, 111] if brightness else None}
    modes = {"supported_color_modes": ["color_temp", "hs"], "supported_features": 0}
    lit = {"brightness": brightness, **color, "color_temp": None, "effect": None}
    return "on" if brightness else "off", {**modes, **lit, "friendly_name": name, **attributes}


def _thing(state: str, name: str, **attributes: Json) -> Furniture:
    return state, {"friendly_name": name, **attributes}


def _sensor(state: str, name: str, device_class: str, unit: str) -> Furniture:
    fields = {"state_class": "measurement", "unit_of_measurement": unit, "device_class": device_class}
    return state, {**fields, "friendly_name": name}


def _script(name: str, mode: str = "single") -> Furniture:
    return "off", {"last_triggered": None, "mode": mode, "current": 0, "friendly_name": name}


_NIGHT = ["light.kitchen_lights", "light.bed_light", "input_boolean.movie_mode"]
_EVENING = ["light.ceiling_lights", "lock.front_door", "cover.living_room_window"]

ENTITIES: Mapping[str, Furniture] = {
    "input_number.burst": (
        "0.0",
        {"initial": None, "editable": False, "min": 0.0, "max": 1_000_000.0, "step": 1.0, "mode": "slider"},
    ),
    "input_boolean.guest_mode": _thing("off", "Guest mode", editable=False),
    "input_boolean.movie_mode": _thing("off", "Movie mode", editable=False),
    "scene.movie_night": ("unknown", {"entity_id": _NIGHT, "friendly_name": "Movie night"}),
    "scene.good_night": ("unknown", {"entity_id": _EVENING, "friendly_name": "Good night"}),
    "script.movie_time": _script("Movie time"),
    "script.slow": _script("Slow script", "parallel"),
    "script.answer": _script("Script with a response"),
    "script.failing": _script("Script that fails"),
    "zone.home": ("0", {"latitude": 52.37, "longitude": 4.89, "radius": 100, "friendly_name": "Test Home"}),
    "sun.sun": _thing("above_horizon", "Sun", elevation=20.5, rising=False),
    "lock.front_door": _thing("locked", "Front Door", supported_features=0),
    "lock.kitchen_door": _thing("unlocked", "Kitchen Door", supported_features=0),
    "lock.openable_lock": _thing("locked", "Openable lock", supported_features=1),
    "sensor.outside_temperature": _sensor("15.6", "Outside Temperature", "temperature", "°C"),
    "sensor.outside_humidity": _sensor("54", "Outside Humidity", "humidity", "%"),
    "sensor.kitchen_temperature": _sensor("20.0", "Kitchen temperature", "temperature", "°C"),
    "sensor.power_consumption": _sensor("100", "Power consumption", "power", "W"),
    "sensor.total_energy_kwh": _sensor("14.2", "Total energy 1", "energy", "kWh"),
    "binary_sensor.movement_backyard": _thing("on", "Movement Backyard", device_class="motion"),
    "binary_sensor.basement_floor_wet": _thing("off", "Basement Floor Wet", device_class="moisture"),
    "switch.decorative_lights": _thing("on", "Decorative Lights", assumed_state=True),
    "switch.ac": _thing("off", "AC", device_class="outlet"),
    "weather.demo_weather_north": _thing("rainy", "Demo Weather North", temperature=-24.4, supported_features=7),
    "climate.heatpump": _thing(
        "heat",
        "HeatPump",
        hvac_modes=["heat", "off"],
        min_temp=7.0,
        max_temp=35.0,
        current_temperature=25.0,
        temperature=20.0,
        hvac_action="heating",
        supported_features=385,
    ),
    "climate.hvac": _thing(
        "cool",
        "Hvac",
        hvac_modes=["off", "heat", "cool", "auto", "dry", "fan_only"],
        min_temp=7.0,
        max_temp=35.0,
        current_temperature=22.0,
        temperature=21.0,
        hvac_action="cooling",
        supported_features=431,
    ),
    "cover.kitchen_window": _thing("closed", "Kitchen Window", supported_features=11),
    "cover.hall_window": _thing("open", "Hall Window", current_position=10, supported_features=15),
    "cover.living_room_window": _thing("open", "Living Room Window", current_position=70, supported_features=255),
    "cover.garage_door": _thing("closed", "Garage Door", device_class="garage", supported_features=3),
    "fan.living_room_fan": _thing("off", "Living Room Fan", percentage=0, supported_features=15),
    "media_player.living_room": _thing("playing", "Living Room", volume_level=1.0, supported_features=119_695),
    "device_tracker.demo_paulus": _thing("not_home", "Paulus", source_type="gps"),
    "person.paulus": _thing("not_home", "Paulus", editable=False),
    "light.bed_light": _light("Bed Light", effect_list=["rainbow", "none"]),
    "light.ceiling_lights": _light("Ceiling Lights", 180),
    "light.kitchen_lights": _light("Kitchen Lights", 180),
    "light.office_rgbw_lights": _light("Office RGBW Lights", 180),
    "light.living_room_rgbww_lights": _light("Living Room RGBWW Lights", 180),
    "group.downstairs": (
        "on",
        {
            "entity_id": ["light.kitchen_lights", "light.ceiling_lights", "lock.front_door"],
            "friendly_name": "Downstairs",
        },
    ),
}

AREAS = (Area("kitchen", "Kitchen"), Area("bedroom", "Bedroom"), Area("living_room", "Living Room", ("Lounge",)))

_CEILING, _DOOR, _WINDOW = (
    Device("Ceiling Lights", "kitchen"),
    Device("Front Door"),
    Device("Living Room Window", "living_room"),
)
DEVICES = (_CEILING, _DOOR, _WINDOW, Device("HeatPump", "bedroom"))

_OF_AREA = {
    "light.kitchen_lights": "kitchen",
    "sensor.kitchen_temperature": "kitchen",
    "lock.kitchen_door": "kitchen",
    "light.bed_light": "bedroom",
    "cover.kitchen_window": "bedroom",
    "light.living_room_rgbww_lights": "living_room",
    "media_player.living_room": "living_room",
}
_OF_DEVICE = {
    "light.ceiling_lights": _CEILING,
    "lock.front_door": _DOOR,
    "cover.living_room_window": _WINDOW,
    "climate.heatpump": DEVICES[3],
}
_UNREGISTERED = ("zone", "sun", "group", "person", "weather", "scene")
"""Domains whose entities have states and no entry, as 40 of the 133 of the real demo."""

ENTRIES = tuple(
    RegistryEntry(entity_id, _OF_AREA.get(entity_id), device.id if (device := _OF_DEVICE.get(entity_id)) else None)
    for entity_id in ENTITIES
    if entity_id.partition(".")[0] not in _UNREGISTERED
)

SCENES: Mapping[str, Mapping[str, Mapping[str, Json]]] = {
    "scene.movie_night": {
        "light.kitchen_lights": {"state": "off"},
        "light.bed_light": {"state": "on", "brightness": 60},
        "input_boolean.movie_mode": {"state": "on"},
    },
    "scene.good_night": {
        "light.ceiling_lights": {"state": "off"},
        "lock.front_door": {"state": "locked"},
        "cover.living_room_window": {"state": "closed"},
    },
}


async def _movie_time(call: Call) -> Json:
    await call_service(call.home, "input_boolean", "turn_on", {"entity_id": "input_boolean.movie_mode"}, call.context)
    return {}


async def _slow(call: Call) -> Json:
    await asyncio.sleep(call.home.slow_script_s)
    return {}


async def _answer(_: Call) -> Json:
    return {"value": 42}


async def _failing(_: Call) -> Json:
    """A script that ends in an error is a call that succeeded."""
    return {}


SCRIPTS: Mapping[str, Callable[[Call], Awaitable[Json]]] = {
    "script.movie_time": _movie_time,
    "script.slow": _slow,
    "script.answer": _answer,
    "script.failing": _failing,
}
