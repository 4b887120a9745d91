"""Reach of services of integrations that name nobody: whatever their integration has brought."""

from __future__ import annotations

from collections.abc import Iterator

from agent_gate.model.bounds import SIGNATURES_MAX
from agent_gate.policy.encoding import ArgumentError
from agent_gate.services.home_assistant.home import Home
from agent_gate.services.home_assistant.selectors import says_whom
from agent_gate.services.home_assistant.unknown import places_unknown
from agent_gate.tools.home_assistant.signatures import ServiceCall, is_entity_domain

_ONLY_TELL = ("binary_sensor", "event", "sensor")
"""Domains whose entities nothing acts on; most homes have more of them than of all others."""
_OF_THE_HOUSE = ("homeassistant",)
"""It enters scenes of people's own under its name, which its services have nothing to do with."""
_READS_ANEW = "reload"


def aliases_of_integration(home: Home, call: ServiceCall) -> tuple[str, ...]:
    """Names by which deny rules for entities hold for a service that names them in its own words, or not at all.

    `mqtt.publish` opens a lock by its topic, and `surepetcare.set_lock_state` by the number of a flap.
    """
    if is_entity_domain(call.domain) or call.domain in _OF_THE_HOUSE or call.service == _READS_ANEW:
        return ()
    if call.entities and says_whom(home.services[call.domain, call.service]):
        return ()
    if not home.knows_places:
        raise places_unknown()
    found = dict.fromkeys(_names(home, call))
    if len(found) > SIGNATURES_MAX:
        raise ArgumentError(
            f"`{call.domain}.{call.service}` can reach more than {SIGNATURES_MAX} entities of its integration",
            "call a service that names the entity",
        )
    return tuple(found)


def _names(home: Home, call: ServiceCall) -> Iterator[str]:
    for entity_id in home.of_integration(call.domain):
        domain = entity_id.partition(".")[0]
        if domain not in _ONLY_TELL and entity_id not in call.entities:
            yield f"ha_call_service({call.domain}.{call.service}, {entity_id})"
            yield f"ha_call_service({domain}.{call.service}, {entity_id})"
