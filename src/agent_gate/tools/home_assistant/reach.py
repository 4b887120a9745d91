"""Reach of calls of a home beyond what anybody can know: their risk is high, or a person is asked each time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_gate.model.tool import Reach

BEYOND = (
    "alexa_devices",
    "automation",
    "conversation",
    "google_assistant_sdk",
    "pyscript",
    "python_script",
    "rest_command",
    "script",
    "shell_command",
)
"""Domains whose services set off what nobody can know by looking at the call: sentences, and programs of people."""
PASSED_ON = ("ai_task", "assist_satellite", "hassio", "ifttt", "nodered")
"""Those that hand words or a start signal to something else, which may do another thing the next time."""
CHANGEABLE = ("scene.turn_on",)
"""Services that do what was stored elsewhere: which states a scene sets no server tells, and it can be stored anew."""
_SERVICE = re.compile(r"ha_call_service\(([a-z0-9_]+)(\.[a-z0-9_]+)")


def goes_beyond(signature: str) -> bool:
    """Tell whether a call sets off more than its signatures can say, so that its risk is high."""
    found = _SERVICE.match(signature)
    return found is not None and found[1] in BEYOND


def reaches_beyond(signatures: Iterable[str]) -> bool:
    return any(map(goes_beyond, signatures))


def why_ungranted(signature: str) -> str:
    """Say why a call cannot be agreed to beforehand; empty where it can."""
    found = _SERVICE.match(signature)
    if found and (found[1] in (*BEYOND, *PASSED_ON) or found[1] + found[2] in CHANGEABLE):
        return f"nobody can know what `{found[1]}{found[2]}` will do the next time"
    return ""


SERVICES = Reach(goes_beyond, why_ungranted)
EVENTS = Reach(why_ungranted=lambda _: "nobody can know what automations make of an event")
"""Automations listen to events, and do what they please."""
