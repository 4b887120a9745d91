"""Calls that no grant covers: a person is asked each time, because nobody can know what they would reach."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
EVENTS = "ha_fire_event"
"""Automations listen to events, and do what they please."""

_SERVICE = re.compile(r"ha_call_service\(([a-z0-9_]+)(\.[a-z0-9_]+)")


def why_ungranted(tool: str, signatures: Sequence[str]) -> str:
    """Say why a call cannot be agreed to beforehand; empty where it can."""
    if tool == EVENTS:
        return "nobody can know what automations make of an event"
    for found in map(_SERVICE.match, signatures):
        if found and (found[1] in (*BEYOND, *PASSED_ON) or found[1] + found[2] in CHANGEABLE):
            return f"nobody can know what `{found[1]}{found[2]}` will do the next time"
    return ""
