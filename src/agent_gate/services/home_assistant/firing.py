"""Events that an agent fires on Home Assistant's bus: none of those that the gate itself goes by."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.policy.signature import signatures_for
from agent_gate.ports.tools import Binding, Recorded
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.tools.home_assistant.declarations import HA_FIRE_EVENT

_GONE_BY = re.compile(
    r"state_(changed|reported)|.*_(updated|reloaded)|homeassistant_.*|component_loaded|call_service|service_.*"
    r"|(mobile_app|ios|telegram)[_.].*"
)
"""Events that tell of the home, and bring answers of people: an agent could forge both."""


def event_binding(client: HomeClient, args: Mapping[str, Json]) -> Binding:
    signatures = signatures_for(HA_FIRE_EVENT, args)
    event_type, event_data = args["event_type"], args.get("event_data") or {}
    if _GONE_BY.fullmatch(event_type):
        raise ToolError(
            f"`{event_type}` is Home Assistant's own way to tell what is so, or what a person answered",
            code=2002,
            suggestion="fire an event with a name of your own",
        )

    async def act(_: BoundCall) -> Json:
        try:
            await client.fire_event(event_type, event_data)
        except Refused as refused:
            if refused.reason != "unauthorized":
                raise
            raise Refused(
                refused.reason, "the gate's token may not fire events", suggestion="give it one of an administrator"
            ) from None
        return {"event_type": event_type, "fired": True}

    return Binding(signatures, {"event_type": event_type}, act)


async def refuse_undo(call: Recorded, _: Judge) -> Binding:
    raise ToolError(
        f"call `{call.call_id}` fired an event, and what has heard it cannot be made to forget it",
        code=2002,
        suggestion="look at what the event set off, and undo that",
    )
