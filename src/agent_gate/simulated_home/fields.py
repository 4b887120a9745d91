"""Fields of services: what each accepts, and how it is described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_gate.model.tool import Json

Check = Callable[[Json], Json]
"""The value as the service takes it; a ValueError says what was expected."""


@dataclass(frozen=True, slots=True)
class Field:
    check: Check
    selector: Mapping[str, Json]
    name: str = ""
    description: str = ""
    is_required: bool = False

    def as_json(self) -> dict[str, Json]:
        required = {"required": True} if self.is_required else {}
        return {**required, "selector": dict(self.selector), "name": self.name, "description": self.description}


def number(name: str, low: float, high: float, description: str = "", *, required: bool = False) -> Field:
    def check(value: Json) -> Json:
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise ValueError("expected float") from None
        if found < low:
            raise ValueError(f"value must be at least {low:g}")
        if found > high:
            raise ValueError(f"value must be at most {high:g}")
        return found

    return Field(check, {"number": {"min": low, "max": high}}, name, description, required)


def integer(name: str, low: int, high: int, description: str = "", *, required: bool = False) -> Field:
    def check(value: Json) -> Json:
        try:
            found = int(value)
        except (TypeError, ValueError):
            raise ValueError("expected int") from None
        if found < low:
            raise ValueError(f"value must be at least {low}")
        if found > high:
            raise ValueError(f"value must be at most {high}")
        return found

    return Field(check, {"number": {"min": low, "max": high}}, name, description, required)


def text(name: str, description: str = "", *, required: bool = False) -> Field:
    def check(value: Json) -> Json:
        if value is None:
            raise ValueError("string value is None")
        if isinstance(value, dict | list):
            raise ValueError("value should be a string")
        return str(value)

    return Field(check, {"text": None}, name, description, required)


def choice(
    name: str, options: tuple[str, ...], expected: str, description: str = "", *, required: bool = False
) -> Field:
    def check(value: Json) -> Json:
        if value not in options:
            raise ValueError(expected)
        return value

    return Field(check, {"select": {"options": list(options)}}, name, description, required)


def anything(name: str = "", description: str = "") -> Field:
    return Field(lambda value: value, {"object": None}, name, description)


def mapping(name: str = "", description: str = "") -> Field:
    def check(value: Json) -> Json:
        if not isinstance(value, dict):
            raise ValueError("expected dict")
        return value

    return Field(check, {"object": None}, name, description)


def color(name: str, description: str = "") -> Field:
    def check(value: Json) -> Json:
        if not isinstance(value, list) or len(value) != 3:
            raise ValueError("expected a list of three integers")
        if not all(isinstance(part, int) and 0 <= part <= 255 for part in value):
            raise ValueError("value must be at most 255")
        return value

    return Field(check, {"color_rgb": None}, name, description)


def entities(name: str, description: str = "") -> Field:
    """Ids of entities, as a list or one text with commas."""

    def check(value: Json) -> Json:
        ids = value.split(",") if isinstance(value, str) else value
        if not isinstance(ids, list) or not all(isinstance(one, str) and "." in one for one in ids):
            raise ValueError("not a valid value")
        return [one.strip().lower() for one in ids]

    return Field(check, {"entity": {"multiple": True}}, name, description)


def members(name: str, description: str = "", *, required: bool = True) -> Field:
    """States by entity id, each a word or an object with a `state`."""

    def check(value: Json) -> Json:
        if not isinstance(value, dict):
            raise ValueError("expected a dictionary")
        return {entity_id: _wanted(entity_id, wanted) for entity_id, wanted in value.items()}

    return Field(check, {"object": None}, name, description, required)


def _wanted(entity_id: str, wanted: Json) -> dict[str, Json]:
    fields = dict(wanted) if isinstance(wanted, dict) else {"state": wanted}
    state = fields.get("state")
    if isinstance(state, bool):
        state = "on" if state else "off"
    if not isinstance(state, str):
        raise ValueError(f"State for {entity_id} should be a string")
    return {**fields, "state": state}
