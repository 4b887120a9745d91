"""Services that act through others: scenes, scripts and the generic ones of `homeassistant`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent_gate.model.tool import Json
from agent_gate.simulated_home.calling import call_service
from agent_gate.simulated_home.fields import members, number
from agent_gate.simulated_home.services import Call, Service, Work
from agent_gate.simulated_home.states import State, iso

_TRANSITION = number("Transition", 0, 6553, "Time it takes the devices to transition into the states of the scene.")
_GENERIC = ("turn_on", "turn_off", "toggle")


async def _scene_on(call: Call) -> None:
    for scene in call.entities:
        call.home.write(scene.entity_id, iso(call.home.now()), scene.attributes, call.context)
        await reproduce(call, call.home.scenes.get(scene.entity_id, {}))


async def _scene_apply(call: Call) -> None:
    await reproduce(call, call.data["entities"])


async def reproduce(call: Call, wanted: Mapping[str, Mapping[str, Json]]) -> None:
    """Each entity is brought to its state by a service of its own domain; unknown ones are passed over."""
    for entity_id, fields in wanted.items():
        state = call.home.states.get(entity_id)
        for name, data in _steps(state, fields) if state else ():
            given = {"entity_id": entity_id, **data}
            await call_service(call.home, entity_id.partition(".")[0], name, given, call.context)


def _steps(state: State, fields: Mapping[str, Json]) -> list[tuple[str, dict[str, Json]]]:
    wanted = fields["state"]
    if state.state == wanted and all(state.attributes.get(key) == fields[key] for key in fields if key != "state"):
        return []
    match state.domain:
        case "light":
            keys = ("brightness", "rgb_color", "color_temp", "effect")
            data = {key: fields[key] for key in keys if fields.get(key) is not None}
            return [("turn_on", data)] if wanted == "on" else [("turn_off", {})]
        case "lock":
            return [("lock" if wanted == "locked" else "unlock", {})]
        case "cover":
            if "current_position" in fields and "current_position" in state.attributes:
                return [("set_cover_position", {"position": fields["current_position"]})]
            return [] if state.state == wanted else [("close_cover" if wanted == "closed" else "open_cover", {})]
        case "climate":
            kept = {key: fields[key] for key in ("temperature",) if fields.get(key) is not None}
            return [("set_hvac_mode", {"hvac_mode": wanted}), *([("set_temperature", kept)] if kept else [])]
        case "input_number":
            return [("set_value", {"value": wanted})]
        case _:
            return [] if state.state == wanted else [("turn_on" if wanted == "on" else "turn_off", {})]


def _generic(name: str) -> Work:
    """Each domain's own service of that name; domains without one are passed over."""

    async def work(call: Call) -> None:
        for state in call.entities:
            if (state.domain, name) in call.home.services:
                await call_service(call.home, state.domain, name, {"entity_id": state.entity_id}, call.context)

    return work


async def _restart(call: Call) -> None:
    """Nobody is answered over a WebSocket any more; who asks by REST is."""
    call.home.restart()
    call.home.drop_connections()


async def _stop(call: Call) -> None:
    call.home.stop()
    call.home.drop_connections()


def script(name: str) -> Service:
    """The service of one script."""

    async def work(call: Call) -> Json:
        return await _run(call, f"script.{name}")

    return Service(
        "script", name, work, name.replace("_", " ").capitalize(), "", response="optional", takes_anything=True
    )


async def _script_on(call: Call) -> None:
    """Does not wait for the scripts to end."""
    for state in call.entities:
        call.home.background(_run(call, state.entity_id))
    await asyncio.sleep(0)


async def _script_off(call: Call) -> None:
    for state in call.entities:
        call.home.write(state.entity_id, "off", state.attributes, call.context)


async def _run(call: Call, entity_id: str) -> Json:
    state = call.home.states[entity_id]
    running = {**state.attributes, "last_triggered": iso(call.home.now()), "current": 1}
    call.home.write(entity_id, "on", running, call.context)
    try:
        return await call.home.scripts[entity_id](call)
    finally:
        call.home.write(entity_id, "off", {**running, "current": 0}, call.context)


SERVICES = [
    Service("scene", "turn_on", _scene_on, "Activate", "Activates a scene.", {"transition": _TRANSITION}, ("scene",)),
    Service(
        "scene",
        "apply",
        _scene_apply,
        "Apply",
        "Activates a scene with configuration.",
        {"entities": members("Entities state", "List of entities and their target state."), "transition": _TRANSITION},
        needs_control=False,
    ),
    Service(
        "script", "turn_on", _script_on, "Turn on", "Runs the sequence of actions defined in a script.", {}, ("script",)
    ),
    Service("script", "turn_off", _script_off, "Turn off", "Stops a running script.", {}, ("script",)),
    *(
        Service(
            "homeassistant",
            name,
            _generic(name),
            f"Generic {name.replace('_', ' ')}",
            f"Generic service to {name.replace('_', ' ')} devices under any domain.",
            {},
            (),
        )
        for name in _GENERIC
    ),
    Service("homeassistant", "restart", _restart, "Restart", "Restarts Home Assistant.", is_for_admins=True),
    Service("homeassistant", "stop", _stop, "Stop", "Stops Home Assistant.", is_for_admins=True),
]
