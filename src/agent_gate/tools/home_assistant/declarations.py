"""Declarations of the Home Assistant tools, in words that a language model can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_gate.model.bounds import (
    HOME_CALL_S,
    HOME_HISTORY_IDS_MAX,
    HOME_NAME_CHARS_MAX,
    HOME_STATISTIC_IDS_MAX,
    HOME_TEMPLATE_CHARS_MAX,
)
from agent_gate.model.tool import ArgumentKind, Effect, Json, Risk, ToolDeclaration
from agent_gate.tools.home_assistant import aliases, reach, rules
from agent_gate.tools.home_assistant.signatures import (
    signature_of_event,
    signatures_of_scene,
    signatures_of_service,
    signer_of_state,
)
from agent_gate.tools.schemas import object_schema as _schema

PERIODS = ("5minute", "hour", "day", "week", "month")
"""Over which Home Assistant keeps statistics."""


@dataclass(frozen=True, slots=True)
class ToolMeta:
    """Demands of the module document on a tool beside its schema: the arguments that a person must look at."""

    arg_sensitivities: Mapping[str, bool] = field(default_factory=dict)


def _query(
    name: str,
    description: str,
    schema: Mapping[str, Json],
    risk: Risk = Risk.LOW,
    unsigned: Sequence[str] = (),
    **brought: Any,
) -> ToolDeclaration:
    # What stands in no signature a grant is bound to all the same, but for which part of a list it is.
    sensitive = frozenset(unsigned) - {"limit", "cursor"}
    kinds = dict.fromkeys(unsigned, ArgumentKind.UNSIGNED)
    return ToolDeclaration(
        name, description, schema, kinds, Effect.READ, risk, 0, sensitive=sensitive, closed_world=True, **brought
    )


def _control(
    name: str, description: str, schema: Mapping[str, Json], *sensitive: str, **brought: Any
) -> ToolDeclaration:
    return ToolDeclaration(
        name,
        description,
        schema,
        {},
        Effect.WRITE,
        Risk.MEDIUM,
        1,
        sensitive=frozenset(sensitive),
        timeout_s=HOME_CALL_S,
        closed_world=True,
        **brought,
    )


def _text(description: str, *examples: str, **more: Json) -> Mapping[str, Json]:
    return {"type": "string", "description": description, **({"examples": list(examples)} if examples else {}), **more}


def _names(description: str, pattern: str, names_max: int, *examples: Json) -> Mapping[str, Json]:
    return {
        "type": "array",
        "items": {"type": "string", "pattern": pattern, "maxLength": HOME_NAME_CHARS_MAX},
        "minItems": 1,
        "maxItems": names_max,
        "description": description,
        "examples": list(examples),
    }


_ENTITY = _text("The entity's id: its domain, a dot, its name, in lower case", "light.kitchen", "sensor.hall_humidity")
_ENTITIES: Mapping[str, Json] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
    "description": "One entity id, or a list of them; `all` is every entity of the service's domain",
    "examples": ["light.kitchen", ["light.kitchen", "light.hall"]],
}
_NAME = "^[a-z_][a-z0-9_]*$"
_MOMENT = "ISO 8601 with a zone"
_SCENE = _text("The scene's id", "scene.movie_night")

_LIMIT: Mapping[str, Json] = {
    "type": "integer",
    "minimum": 1,
    "description": "How many at most; all if not given",
    "examples": [100],
}
_CURSOR = _text("Where to go on: `next_cursor` of the answer before", maxLength=HOME_NAME_CHARS_MAX)
_PAGED = " `left_out` says how many come after these, `withheld` how many a rule keeps from you."

HA_GET_STATE = _query(
    "ha_get_state",
    "State of one entity: its value (`on`, `21.5`, …), its attributes, when it changed and which area it is in. "
    "`live: false` means that Home Assistant is out of reach, and that this is `age_s` seconds old; with `stale: true` "
    "it is what was stored at `captured_at`, before the gate was started.",
    _schema("entity_id", entity_id=_ENTITY),
    sign=signer_of_state("ha_get_state"),
    mistake_in=rules.lower_case_ids("ha_get_state"),
)
HA_GET_ENTITY_STATE = _query(
    "ha_get_entity_state",
    HA_GET_STATE.description,
    HA_GET_STATE.input_schema,
    sign=signer_of_state("ha_get_entity_state"),
    aliases=aliases.of_reading("entity_id"),
    mistake_in=rules.lower_case_ids("ha_get_entity_state"),
)
HA_GET_STATES = _query(
    "ha_get_states",
    "States of all entities with their attributes, sorted by id. That is a lot: `ha_list_entities` gives the same in "
    f"short, and `limit` a part of it.{_PAGED}",
    _schema(limit=_LIMIT, cursor=_CURSOR),
    unsigned=("limit", "cursor"),
    sign=lambda _: ("ha_get_states",),
    mistake_in=rules.bare_name("ha_get_states"),
)
HA_LIST_ENTITIES = _query(
    "ha_list_entities",
    "The entities of the home in short: id, value, name, area and domain, sorted by id. Use it to find the ids that "
    f"other tools want.{_PAGED}",
    _schema(
        domain=_text("Only entities of this domain: what comes before the dot of an id", "light", pattern=_NAME),
        area=_text("Only entities in this area, by its name, id or alias, in any case", "Kitchen", "living_room"),
        limit=_LIMIT,
        cursor=_CURSOR,
    ),
    unsigned=("limit", "cursor"),
)
HA_LIST_AREAS = _query(
    "ha_list_areas", "The areas (rooms) of the home: id, name and aliases, sorted by name.", _schema()
)
HA_LIST_SERVICES = _query(
    "ha_list_services",
    "What `ha_call_service` can call: each service with what it does and the fields that its `data` takes. Without a "
    "domain the fields are left out.",
    _schema(domain=_text("Only services of this domain", "light", "climate", pattern=_NAME)),
)
HA_GET_HISTORY = _query(
    "ha_get_history",
    "How the states of some entities changed in at most 31 days, oldest first. The first row of an entity is the "
    "state that it had at the start.",
    _schema(
        "entity_ids start",
        entity_ids=_names(
            "The entities; there is no history of all",
            r"^[a-z_][a-z0-9_]*\.[a-z0-9_]+$",
            HOME_HISTORY_IDS_MAX,
            ["sensor.living_room_temperature"],
        ),
        start=_text(f"The beginning, {_MOMENT}", "2026-02-01T00:00:00Z"),
        end=_text(f"The end, {_MOMENT}; now if not given, or if it is later", "2026-02-02T00:00:00+01:00"),
    ),
    aliases=aliases.of_reading("entity_ids"),
)
HA_GET_STATISTICS = _query(
    "ha_get_statistics",
    "Long-term statistics of sensors, per period: mean, min and max of what is measured, sum and state of what is "
    "counted.",
    _schema(
        "statistic_ids start period",
        statistic_ids=_names(
            "The ids; mostly those of sensors",
            r"^[a-z0-9_]+[.:][a-z0-9_]+$",
            HOME_STATISTIC_IDS_MAX,
            ["sensor.total_energy_kwh"],
        ),
        start=_text(f"The beginning, {_MOMENT}", "2026-02-01T00:00:00Z"),
        end=_text(f"The end, {_MOMENT}; now if not given, or if it is later", "2026-02-28T00:00:00Z"),
        period={"enum": list(PERIODS), "description": "What each row covers"},
    ),
    aliases=aliases.of_reading("statistic_ids"),
)
HA_RENDER_TEMPLATE = _query(
    "ha_render_template",
    "The text that a Jinja2 template comes to, rendered by Home Assistant: for what no other tool answers, such as "
    "counts and averages. It changes nothing. Needs the token of an administrator.",
    _schema(
        "template",
        template=_text(
            "The template",
            "{{ states('sensor.temperature') }} °C",
            "{{ states.light | selectattr('state', 'eq', 'on') | list | count }}",
            minLength=1,
            maxLength=HOME_TEMPLATE_CHARS_MAX,
        ),
    ),
    Risk.MEDIUM,
    unsigned=("template",),
    warnings=rules.read_by_templates,
)
"""It reads whatever there is, and a template that computes for long keeps the whole home waiting."""

HA_CALL_SERVICE = _control(
    "ha_call_service",
    "Call a service of Home Assistant: switch, set, lock, play, notify and so on. Name what it acts on by `entity_id` "
    "or `target`. The answer tells the states that changed by it. Do not repeat a call whose outcome is unknown before "
    "you have looked.",
    _schema(
        "domain service",
        domain=_text("The service's domain", "light", "climate", "homeassistant"),
        service=_text("Its name; see `ha_list_services`", "turn_on", "set_temperature"),
        entity_id=_ENTITIES,
        target={
            "type": "object",
            "description": "What it acts on: entity_id, area_id, device_id, label_id, floor_id; each an id or a list",
            "examples": [{"entity_id": "light.kitchen"}, {"area_id": "kitchen"}],
        },
        data={
            "type": "object",
            "description": "The service's own fields; see `ha_list_services`",
            "examples": [{"brightness_pct": 80}, {"temperature": 21}],
        },
    ),
    "domain",
    "service",
    "data",
    sign=signatures_of_service,
    aliases=aliases.of_service,
    reach=reach.SERVICES,
    mistake_in=rules.lower_case_ids("ha_call_service"),
)
HA_ACTIVATE_SCENE = _control(
    "ha_activate_scene",
    "Activate a scene: everything in it takes the state that the scene gives it.",
    _schema(
        "entity_id",
        entity_id=_SCENE,
        transition={
            "type": "number",
            "minimum": 0,
            "description": "Seconds that lights take to change",
            "examples": [1.5],
        },
    ),
    "entity_id",
    "transition",
    sign=signatures_of_scene,
    reach=reach.SERVICES,
    mistake_in=rules.scene_by_service,
)
HA_FIRE_EVENT = _control(
    "ha_fire_event",
    "Fire an event on Home Assistant's bus, which automations may listen to. Needs the token of an administrator.",
    _schema(
        "event_type",
        event_type=_text("What has happened, in lower case", "doorbell_rang"),
        event_data={"type": "object", "description": "What is told of it", "examples": [{"door": "front"}]},
    ),
    "event_type",
    "event_data",
    sign=signature_of_event,
    reach=reach.EVENTS,
    mistake_in=rules.lower_case_ids("ha_fire_event"),
)

HOME_ASSISTANT_TOOLS = (
    HA_GET_STATE,
    HA_GET_STATES,
    HA_GET_ENTITY_STATE,
    HA_LIST_ENTITIES,
    HA_LIST_AREAS,
    HA_LIST_SERVICES,
    HA_GET_HISTORY,
    HA_GET_STATISTICS,
    HA_RENDER_TEMPLATE,
    HA_CALL_SERVICE,
    HA_ACTIVATE_SCENE,
    HA_FIRE_EVENT,
)
