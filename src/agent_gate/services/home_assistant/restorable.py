"""The part of an entity's state that Home Assistant can bring back, and when two states are alike in that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.model.bounds import SHOWN_CHARS_MAX
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.things import Entity

_COLOURS = ("hs_color", "rgb_color", "rgbw_color", "rgbww_color", "xy_color", "color_temp", "color_temp_kelvin")
_PLAYED = ("media_content_id", "media_content_type")
RESTORABLE: Mapping[str, tuple[str, ...]] = {
    "alarm_control_panel": (),
    "automation": (),
    "climate": (
        "temperature", "target_temp_high", "target_temp_low", "humidity", "fan_mode", "preset_mode", "swing_mode",
    ),
    "counter": ("initial", "maximum", "minimum", "step"),
    "cover": ("current_position", "current_tilt_position"),
    "fan": ("percentage", "preset_mode", "oscillating", "direction"),
    "humidifier": ("humidity", "mode"),
    "input_boolean": (),
    "input_datetime": (),
    "input_number": (),
    "input_select": ("options",),
    "input_text": (),
    "light": ("brightness", "effect", "color_mode", *_COLOURS),
    "lock": (),
    "media_player": (
        "volume_level", "is_volume_muted", "source", "sound_mode", *_PLAYED,
    ),
    "number": (),
    "remote": (),
    "select": (),
    "siren": (),
    "switch": (),
    "text": (),
    "timer": ("duration",),
    "vacuum": ("fan_speed",),
    "valve": ("current_position",),
    "water_heater": ("temperature", "away_mode"),
}  # fmt: skip
"""By domain, the attributes that belong to a state that can be brought back."""

INVERSE: Mapping[tuple[str, str], str] = {
    ("cover", "open"): "open_cover",
    ("cover", "closed"): "close_cover",
    ("lock", "locked"): "lock",
    ("lock", "unlocked"): "unlock",
    ("valve", "open"): "open_valve",
    ("valve", "closed"): "close_valve",
    **{
        (domain, state): f"turn_{state}"
        for domain in ("automation", "fan", "humidifier", "input_boolean", "light", "remote", "siren", "switch")
        for state in ("on", "off")
    },
}
"""The service that leads to a state, where a scene does not."""
NOT_BY_SCENE = ("siren", "valve")
"""Domains that a scene passes over, in some versions of Home Assistant or in all."""

_SAID_IN_PART = ("media_player.", "input_select.")
"""To say what they play, or may be, again begins it anew; a cover whose position is not said is opened."""

_ON_THE_WAY = {
    "opening": "open",
    "closing": "closed",
    "locking": "locked",
    "unlocking": "unlocked",
    "arming": "armed",
    "disarming": "disarmed",
    "returning": "docked",
    "buffering": "playing",
}
NO_STATE = ("unknown", "unavailable")


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of an entity at one moment, as far as it can be brought back."""

    state: str
    attributes: Mapping[str, Json]

    @classmethod
    def of(cls, entity: Entity) -> Moment:
        return cls.made_of(entity.entity_id, entity.state, entity.attributes)

    @classmethod
    def made_of(cls, entity_id: str, state: str, attributes: Mapping[str, Json]) -> Moment:
        names = RESTORABLE.get(entity_id.partition(".")[0], ())
        told = {name: attributes[name] for name in names if attributes.get(name) is not None}
        # A fan that stands still says so by 0, or by nothing until it has turned once.
        return cls(state, {name: value for name, value in told.items() if (name, value) != ("percentage", 0)})

    @classmethod
    def from_json(cls, fields: Mapping[str, Json]) -> Moment:
        return cls(fields["state"], fields["attributes"])

    def to_json(self) -> dict[str, Json]:
        return {"state": self.state, "attributes": dict(self.attributes)}

    def is_like(self, other: Moment) -> bool:
        """Tell whether it is the same, colours aside: a lamp shows the nearest that it can."""
        names = (self.attributes.keys() | other.attributes.keys()) - {"color_mode", *_COLOURS}
        same = all(self.attributes.get(name) == other.attributes.get(name) for name in names)
        return self.state == other.state and same

    def has_come_to(self, other: Moment) -> bool:
        """Tell whether it is the same, or was on its way there."""
        goal = _ON_THE_WAY.get(self.state)
        return self == other or (goal is not None and other.state.startswith((goal, self.state)))

    def wanted_from(self, entity_id: str, now: Moment) -> dict[str, Json]:
        """Say what a scene has to hold to lead back here."""
        attributes = self.attributes
        if entity_id.startswith(_SAID_IN_PART):
            changed = {name for name, value in attributes.items() if now.attributes.get(name) != value}
            changed |= set(_PLAYED) if changed & set(_PLAYED) else set()
            attributes = {name: value for name, value in attributes.items() if name in changed}
        return {"state": self.state, **attributes}

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self.attributes.items())[:SHOWN_CHARS_MAX]
        return f"`{self.state}`" + (f" ({told})" if told else "")
