"""Templates: the part of Home Assistant's that reads states, in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agent_gate.model.tool import Json
from agent_gate.simulated_home.states import State

if TYPE_CHECKING:
    from agent_gate.simulated_home.household import Household


class RenderError(Exception):
    pass


class _Domain:
    """Value of `states.light`: states by the second half of their ids."""

    def __init__(self, home: Household, domain: str) -> None:
        self._home, self._domain = home, domain

    def __getattr__(self, name: str) -> State | None:
        return self._home.states.get(f"{self._domain}.{name}")


class _States:
    def __init__(self, home: Household) -> None:
        self._home = home

    def __call__(self, entity_id: str) -> str:
        state = self._home.states.get(entity_id)
        return state.state if state else "unknown"

    def __getattr__(self, domain: str) -> _Domain:
        if domain in ("alters_data", "unsafe_callable"):  # what the sandbox asks before it lets this be called
            raise AttributeError(domain)
        return _Domain(self._home, domain)


def render(home: Household, template: str, variables: Mapping[str, Json]) -> str:
    environment, states = ImmutableSandboxedEnvironment(), _States(home)

    def state_attr(entity_id: str, name: str) -> Json:
        state = home.states.get(entity_id)
        return state.attributes.get(name) if state else None

    def is_state(entity_id: str, wanted: str) -> bool:
        return entity_id in home.states and states(entity_id) == wanted

    def area_entities(area: str) -> list[str]:
        ids = [one.area_id for one in home.registries.areas.values() if area in (one.area_id, one.name)]
        return sorted(home.registries.in_area(ids[0])) if ids else []

    known = {"states": states, "state_attr": state_attr, "is_state": is_state, "area_entities": area_entities}
    environment.globals.update(known)
    try:
        return environment.from_string(template).render(**variables).strip()
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise RenderError(f"{type(error).__name__}: {error}") from error
