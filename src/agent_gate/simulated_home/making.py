"""Services that make or change what they name by a word of their own: groups, scenes, trackers."""

from __future__ import annotations

import re

from agent_gate.model.tool import Json
from agent_gate.simulated_home.fields import Field, anything, entities, members, text
from agent_gate.simulated_home.services import Call, Service

_SLUG = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


def _slug(name: str, description: str) -> Field:
    def check(value: Json) -> Json:
        if not _SLUG.fullmatch(str(value)):
            raise ValueError(f"invalid slug {value}")
        return str(value)

    return Field(check, {"text": None}, name, description, is_required=True)


_OBJECT_ID = _slug("Object ID", "Object ID of this group, used as part of the entity ID.")


async def _group_set(call: Call) -> None:
    data, entity_id = call.data, f"group.{call.data['object_id']}"
    before = call.home.states.get(entity_id)
    attributes = dict(before.attributes) if before else {"friendly_name": data.get("name", data["object_id"])}
    known = data.get("entities", attributes.get("entity_id", []))
    joined = dict.fromkeys([*known, *data.get("add_entities", ())])
    attributes["entity_id"] = [one for one in joined if one not in data.get("remove_entities", ())]
    call.home.write(entity_id, before.state if before else "unknown", attributes, call.context)


async def _group_remove(call: Call) -> None:
    call.home.remove(f"group.{call.data['object_id']}")


async def _scene_create(call: Call) -> None:
    entity_id, wanted = f"scene.{call.data['scene_id']}", dict(call.data.get("entities", {}))
    found = ((one, call.home.states.get(one)) for one in call.data.get("snapshot_entities", ()))
    wanted |= {one: {"state": state.state, **state.attributes} for one, state in found if state}
    call.home.scenes[entity_id] = wanted
    attributes = {"entity_id": list(wanted), "friendly_name": call.data["scene_id"]}
    call.home.write(entity_id, "unknown", attributes, call.context)


async def _see(call: Call) -> None:
    """Trackers of the registry are not for it; where it cannot tell which one is meant, it makes another."""
    entity_id = f"device_tracker.{str(call.data['dev_id']).lower()}"
    if entity_id not in call.home.registries.entries:
        state = call.data.get("location_name", "home")
        call.home.write(entity_id, state, {"source_type": "gps", "friendly_name": call.data["dev_id"]}, call.context)


SERVICES = [
    Service(
        "group",
        "set",
        _group_set,
        "Set",
        "Creates/Updates a user group.",
        {
            "object_id": _OBJECT_ID,
            "name": text("Name", "Name of the group."),
            "entities": entities("Entities", "List of all members in the group."),
            "add_entities": entities("Add entities", "List of members to be added to the group."),
            "remove_entities": entities("Remove entities", "List of members to be removed from a group."),
        },
    ),
    Service("group", "remove", _group_remove, "Remove", "Removes a group.", {"object_id": _OBJECT_ID}),
    Service(
        "scene",
        "create",
        _scene_create,
        "Create",
        "Creates a new scene.",
        {
            "scene_id": _slug("Scene entity ID", "The entity ID of the new scene."),
            "entities": members("Entities state", "List of entities and their target state.", required=False),
            "snapshot_entities": entities("Snapshot entities", "Entities whose current states the scene takes over."),
        },
    ),
    Service(
        "device_tracker",
        "see",
        _see,
        "See",
        "Records a seen tracked device.",
        {
            "dev_id": text("Device ID", "ID of the device.", required=True),
            "location_name": text("Location", "Name of the location where the device is located."),
            "gps": anything("GPS coordinates", "GPS coordinates where the device is located."),
        },
    ),
]
