"""Fields of a service that name what it reaches, as the server describes them by their selectors."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.things import ServiceInfo
from agent_gate.tools.home_assistant.fields import CONFIG_ENTRY, ENTITY, GROUPED, TARGET, Field

_KINDS = {
    "area": "area_id",
    "config_entry": CONFIG_ENTRY,
    "device": "device_id",
    "entity": ENTITY,
    "floor": "floor_id",
    "label": "label_id",
    "target": TARGET,
}
_DEPTH_MAX = 5
"""Of objects in objects, and of sections."""


def fields_of(service: ServiceInfo) -> dict[str, Field]:
    return _read(service.fields, _DEPTH_MAX)


def says_whom(service: ServiceInfo) -> bool:
    """Tell whether a caller can say whom it is to act on."""
    return service.target is not None or "entity_id" in service.fields or bool(fields_of(service))


def _read(described: Json, depth: int) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name, told in described.items() if isinstance(described, Mapping) and depth else ():
        if not isinstance(told, Mapping):
            continue
        # A section is for the eye: its fields stand beside the others in a call.
        found |= _read(told.get("fields"), depth - 1)
        known = _field(told.get("selector"), depth)
        if known:
            found[name] = known
    return found


def _field(selector: Json, depth: int) -> Field | None:
    for word, options in selector.items() if isinstance(selector, Mapping) else ():
        if word in _KINDS:
            return Field(_KINDS[word])
        inner = _read(options.get("fields"), depth - 1) if isinstance(options, Mapping) else {}
        if word == "object" and inner:
            return Field(GROUPED, inner=inner)
    return None
