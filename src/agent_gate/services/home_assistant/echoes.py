"""Entities that changed because of a call of ours, heard while the call is under way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agent_gate.model.bounds import HOME_CONTEXTS_MAX
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.things import Entity


class Echoes:
    """A server says the changes first and only then, with the result, by which context id they are known."""

    def __init__(self) -> None:
        self.user_id = ""
        """The user whose calls are ours; empty where nobody knows."""
        self._calls = 0
        self._heard: OrderedDict[str, dict[str, Entity]] = OrderedDict()

    @property
    def is_listening(self) -> bool:
        return self._calls > 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._heard.clear()

    def note(self, entity: Entity, context: Mapping[str, Json]) -> None:
        if self.user_id and context.get("user_id") != self.user_id:
            return
        self._heard.setdefault(entity.context_id, {})[entity.entity_id] = entity
        self._heard.move_to_end(entity.context_id)
        if len(self._heard) > HOME_CONTEXTS_MAX:
            self._heard.popitem(last=False)

    def of(self, context_id: str) -> tuple[Entity, ...]:
        """The last state of each, in the order in which they first changed."""
        return tuple(self._heard.get(context_id, {}).values())
