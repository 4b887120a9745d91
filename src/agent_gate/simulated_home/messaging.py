"""Services that touch no device: notifications, forecasts, and a generator of many changes."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_gate.model.tool import Json
from agent_gate.simulated_home.fields import anything, choice, mapping, text
from agent_gate.simulated_home.notifications import Notification
from agent_gate.simulated_home.services import Call, Service
from agent_gate.simulated_home.states import iso

DAY_S = 86_400.0
BURST_MAX = 1_000_000
_FORECASTS = ("daily", "hourly", "twice_daily")


async def _notify(call: Call) -> None:
    data = call.data
    sent = Notification(call.service, data["message"], data.get("title"), data.get("target"), data.get("data", {}))
    call.home.notifications.append(sent)


def notify(name: str) -> Service:
    """A service that people get messages by; even those who may only read may send them."""
    return Service(
        "notify",
        name,
        _notify,
        f"Send a notification via {name}",
        f"Sends a notification message using the {name} integration.",
        {
            "message": text("", required=True),
            "title": text(""),
            "target": anything(),
            "data": mapping(),
        },
        needs_control=False,
    )


async def _forecasts(call: Call) -> Json:
    day: dict[str, Any] = {"condition": "sunny", "precipitation": 0.0, "templow": 8.0}
    now = call.home.now()
    days = [{**day, "datetime": iso(now + n * DAY_S), "temperature": 18.0 + n} for n in range(3)]
    return {state.entity_id: {"forecast": days} for state in call.entities}


async def _burst(call: Call) -> None:
    count = min(int(call.data.get("count", 1000)), BURST_MAX)
    per_second = float(call.data.get("per_second", 0))
    entities, prefix = int(call.data.get("entities", 100)), call.data.get("prefix", "sensor.burst_")
    begun = call.home.monotonic()
    for number in range(count):
        call.home.burst_one(number, entities, prefix, call.context)
        ahead = (number + 1) / per_second - (call.home.monotonic() - begun) if per_second else 0
        if ahead > 0:
            await asyncio.sleep(ahead)


async def _clear(call: Call) -> None:
    prefix = call.data.get("prefix", "sensor.burst_")
    for entity_id in [one for one in call.home.states if one.startswith(prefix)]:
        call.home.remove(entity_id)


SERVICES = [
    notify("notify"),
    notify("persistent_notification"),
    Service(
        "persistent_notification",
        "create",
        _notify,
        "Create",
        "Shows a notification on the **Notifications** panel.",
        {"message": text("Message", "Message body.", required=True), "title": text("Title", "Optional title.")},
        needs_control=False,
    ),
    Service(
        "weather",
        "get_forecasts",
        _forecasts,
        "Get forecasts",
        "Get weather forecasts.",
        {
            "type": choice(
                "Forecast type", _FORECASTS, "value must be one of ['daily', 'hourly', 'twice_daily']", required=True
            )
        },
        ("weather",),
        response="only",
    ),
    Service("burst", "run", _burst, takes_anything=True, needs_control=False),
    Service("burst", "clear", _clear, takes_anything=True, needs_control=False),
]
