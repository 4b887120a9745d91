"""Services of what is on or off: lights, switches, fans, players and input booleans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_gate.model.tool import Json
from agent_gate.simulated_home.fields import Field, color, integer, number, text
from agent_gate.simulated_home.services import Call, Service
from agent_gate.simulated_home.states import State

DEFAULT_BRIGHTNESS = 180
_TRANSITION = number("Transition", 0, 6553, "Duration it takes to get to next state.")
_LIGHT_FIELDS: Mapping[str, Field] = {
    "transition": _TRANSITION,
    "rgb_color": color("Color", "The color in RGB format, a list of three integers between 0 and 255."),
    "color_temp": integer("Color temperature", 1, 1000, "Color temperature in mireds."),
    "brightness_pct": number("Brightness", 0, 100, "Percentage of full brightness, where 0 turns the light off."),
    "brightness": integer("Brightness value", 0, 255, "The brightness, where 0 turns the light off."),
    "effect": text("Effect", "Light effect."),
}


async def _light_on(call: Call) -> None:
    for state in call.entities:
        _shine(call, state)


def _shine(call: Call, state: State) -> None:
    data = call.data
    brightness = data.get("brightness")
    if "brightness_pct" in data:
        brightness = round(255 * data["brightness_pct"] / 100)
    if brightness == 0:
        _darken(call, state)
        return
    kept = call.home.memory.setdefault(state.entity_id, {"brightness": DEFAULT_BRIGHTNESS})
    if brightness is not None:
        kept["brightness"] = brightness
    kept |= {key: data[key] for key in ("rgb_color", "color_temp", "effect") if key in data}
    mode = "color_temp" if "color_temp" in kept and "rgb_color" not in data else "hs"
    call.home.write(state.entity_id, "on", {**state.attributes, **kept, "color_mode": mode}, call.context)


async def _light_off(call: Call) -> None:
    for state in call.entities:
        _darken(call, state)


def _darken(call: Call, state: State) -> None:
    dark = dict.fromkeys({"brightness", "color_mode", "rgb_color", "color_temp", "effect"} & {*state.attributes})
    call.home.write(state.entity_id, "off", {**state.attributes, **dark}, call.context)


async def _light_toggle(call: Call) -> None:
    for state in call.entities:
        (_darken if state.state == "on" else _shine)(call, state)


async def _on(call: Call) -> None:
    for state in call.entities:
        call.home.write(state.entity_id, "on", state.attributes, call.context)


async def _off(call: Call) -> None:
    for state in call.entities:
        call.home.write(state.entity_id, "off", state.attributes, call.context)


async def _toggle(call: Call) -> None:
    for state in call.entities:
        call.home.write(state.entity_id, "off" if state.state == "on" else "on", state.attributes, call.context)


async def _volume(call: Call) -> None:
    for state in call.entities:
        attributes: dict[str, Json] = {**state.attributes, **call.data}
        call.home.write(state.entity_id, state.state, attributes, call.context)


def _plain(domain: str, what: str) -> list[Service]:
    on: dict[str, Any] = {"acts_on": (domain,)}
    return [
        Service(domain, "turn_on", _on, "Turn on", f"Turns on {what}.", **on),
        Service(domain, "turn_off", _off, "Turn off", f"Turns off {what}.", **on),
        Service(domain, "toggle", _toggle, "Toggle", f"Toggles {what} on/off.", **on),
    ]


SERVICES = [
    Service(
        "light",
        "turn_on",
        _light_on,
        "Turn on",
        "Turn on one or more lights and adjust properties of the light, even when they are turned on already.",
        _LIGHT_FIELDS,
        ("light",),
    ),
    Service(
        "light",
        "turn_off",
        _light_off,
        "Turn off",
        "Turn off one or more lights.",
        {"transition": _TRANSITION},
        ("light",),
    ),
    Service("light", "toggle", _light_toggle, "Toggle", "Toggles one or more lights.", _LIGHT_FIELDS, ("light",)),
    *_plain("switch", "a switch"),
    *_plain("fan", "a fan"),
    *_plain("media_player", "a media player"),
    *_plain("input_boolean", "an input boolean"),
    Service(
        "media_player",
        "volume_set",
        _volume,
        "Set volume",
        "Sets the volume level.",
        {"volume_level": number("Level", 0, 1, "The volume.", required=True)},
        ("media_player",),
    ),
]
