"""Services of what moves, locks, heats and counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent_gate.simulated_home.faults import Invalid
from agent_gate.simulated_home.fields import Field, choice, integer, number, text
from agent_gate.simulated_home.services import Call, Service, Work
from agent_gate.simulated_home.states import State

LOCK_CAN_OPEN = 1
COVER_CAN_BE_SET = 4
HVAC_MODES = ("off", "heat", "cool", "heat_cool", "auto", "dry", "fan_only")
_CODE: Mapping[str, Field] = {"code": text("Code", "Code used with the lock.")}
_EXPECTED_MODE = f"expected HVACMode or one of {', '.join(repr(mode) for mode in HVAC_MODES)}"


def _turning(way: str, end: str) -> Work:
    """A lock says that it is under way, and later that it is done."""

    async def work(call: Call) -> None:
        for state in call.entities:
            if state.state != end:
                call.home.write(state.entity_id, way, state.attributes, call.context)
        await asyncio.sleep(call.home.lock_s)
        for state in call.entities:
            call.home.write(state.entity_id, end, state.attributes, call.context)

    return work


def _to(position: int) -> Work:
    async def work(call: Call) -> None:
        for state in call.entities:
            _move(call, state, position)

    return work


async def _cover_set(call: Call) -> None:
    """Says nothing until it is there."""
    for state in call.entities:
        _arrive(call, state, call.data["position"])


async def _cover_toggle(call: Call) -> None:
    for state in call.entities:
        _move(call, state, 100 if state.state == "closed" else 0)


async def _cover_stop(call: Call) -> None:
    for state in call.entities:
        if state.state in ("opening", "closing"):
            call.home.write(state.entity_id, "open", state.attributes, call.context)


def _move(call: Call, state: State, position: int) -> None:
    """At once where the cover knows no position; else it says so and arrives after the call has been answered."""
    now = state.attributes.get("current_position")
    if now is None:
        end = "closed" if position == 0 else "open"
        call.home.write(state.entity_id, end, state.attributes, call.context)
    elif now != position:
        way = "opening" if position > now else "closing"
        call.home.write(state.entity_id, way, state.attributes, call.context)
        _arrive(call, state, position)


def _arrive(call: Call, state: State, position: int) -> None:
    end, attributes = "closed" if position == 0 else "open", {**state.attributes, "current_position": position}
    call.home.later(call.home.cover_s, lambda: call.home.write(state.entity_id, end, attributes, call.context))


async def _set_temperature(call: Call) -> None:
    wanted = {key: call.data[key] for key in ("temperature", "target_temp_high", "target_temp_low") if key in call.data}
    for state in call.entities:
        mode = call.data.get("hvac_mode", state.state)
        call.home.write(state.entity_id, mode, {**state.attributes, **wanted}, call.context)


def _mode(mode: str | None) -> Work:
    async def work(call: Call) -> None:
        for state in call.entities:
            action = {"off": "off", "heat": "heating", "cool": "cooling"}
            wanted = call.data["hvac_mode"] if mode is None else mode
            attributes = {**state.attributes, "hvac_action": action.get(wanted, "idle")}
            call.home.write(state.entity_id, wanted, attributes, call.context)

    return work


def _stepping(sign: int) -> Work:
    async def work(call: Call) -> None:
        for state in call.entities:
            _set_number(call, state, float(state.state) + sign * state.attributes["step"])

    return work


async def _set_value(call: Call) -> None:
    for state in call.entities:
        _set_number(call, state, call.data["value"])


def _set_number(call: Call, state: State, value: float) -> None:
    low, high = state.attributes["min"], state.attributes["max"]
    if not low <= value <= high:
        raise Invalid(f"Invalid value for {state.entity_id}: {value} (range {low} - {high})")
    call.home.write(state.entity_id, str(value), state.attributes, call.context)


_LOCK, _COVER, _CLIMATE, _NUMBER = ("lock",), ("cover",), ("climate",), ("input_number",)

SERVICES = [
    Service("lock", "lock", _turning("locking", "locked"), "Lock", "Locks a lock.", _CODE, _LOCK),
    Service("lock", "unlock", _turning("unlocking", "unlocked"), "Unlock", "Unlocks a lock.", _CODE, _LOCK),
    Service(
        "lock", "open", _turning("unlocking", "unlocked"), "Open", "Opens a lock.", _CODE, _LOCK, feature=LOCK_CAN_OPEN
    ),
    Service("cover", "open_cover", _to(100), "Open", "Opens a cover.", {}, _COVER),
    Service("cover", "close_cover", _to(0), "Close", "Closes a cover.", {}, _COVER),
    Service("cover", "stop_cover", _cover_stop, "Stop", "Stops the cover movement.", {}, _COVER),
    Service("cover", "toggle", _cover_toggle, "Toggle", "Toggles a cover open/closed.", {}, _COVER),
    Service(
        "cover",
        "set_cover_position",
        _cover_set,
        "Set position",
        "Moves a cover to a specific position.",
        {"position": integer("Position", 0, 100, "Target position.", required=True)},
        _COVER,
        feature=COVER_CAN_BE_SET,
    ),
    Service(
        "climate",
        "set_temperature",
        _set_temperature,
        "Set target temperature",
        "Sets target temperature.",
        {
            "temperature": number("Temperature", -1000, 1000, "Target temperature."),
            "target_temp_high": number("Target temperature high", -1000, 1000, "High target temperature."),
            "target_temp_low": number("Target temperature low", -1000, 1000, "Low target temperature."),
            "hvac_mode": choice("HVAC mode", HVAC_MODES, _EXPECTED_MODE, "HVAC operation mode."),
        },
        _CLIMATE,
    ),
    Service(
        "climate",
        "set_hvac_mode",
        _mode(None),
        "Set HVAC mode",
        "Sets HVAC operation mode.",
        {"hvac_mode": choice("HVAC mode", HVAC_MODES, _EXPECTED_MODE, "HVAC operation mode.", required=True)},
        _CLIMATE,
    ),
    Service("climate", "turn_on", _mode("heat"), "Turn on", "Turns climate device on.", {}, _CLIMATE),
    Service("climate", "turn_off", _mode("off"), "Turn off", "Turns climate device off.", {}, _CLIMATE),
    Service(
        "input_number",
        "set_value",
        _set_value,
        "Set",
        "Sets the value.",
        {"value": number("Value", float("-inf"), float("inf"), "The target value.", required=True)},
        _NUMBER,
    ),
    Service("input_number", "increment", _stepping(1), "Increment", "Increments the value by 1 step.", {}, _NUMBER),
    Service("input_number", "decrement", _stepping(-1), "Decrement", "Decrements the value by 1 step.", {}, _NUMBER),
]
