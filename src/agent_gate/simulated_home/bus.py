"""Events, and who is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import orjson

from agent_gate.model.tool import Json
from agent_gate.simulated_home.states import Context, State, iso

EVERYTHING = "*"


@dataclass(frozen=True)
class Event:
    event_type: str
    data: Mapping[str, Json]
    context: Context
    fired_at: float
    origin: str = "LOCAL"
    new_state: State | None = None
    """The entity of a state_changed event, where it is not gone."""

    @cached_property
    def message(self) -> bytes:
        """On the wire, without the id of a subscription and its closing brace."""
        event = {
            "event_type": self.event_type,
            "data": self.data,
            "origin": self.origin,
            "time_fired": iso(self.fired_at),
            "context": self.context.as_json(),
        }
        return orjson.dumps({"type": "event", "event": event})[:-1]


Listener = Callable[[Event], None]


class Bus:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._listeners: dict[str, dict[int, Listener]] = {}
        self._next = 0

    def listen(self, event_type: str, listener: Listener) -> Callable[[], None]:
        """The returned callable ends it."""
        self._next += 1
        key = self._next
        self._listeners.setdefault(event_type, {})[key] = listener

        def end() -> None:
            self._listeners[event_type].pop(key, None)

        return end

    def fire(
        self,
        event_type: str,
        data: Mapping[str, Json],
        context: Context,
        origin: str = "LOCAL",
        new_state: State | None = None,
    ) -> None:
        event = Event(event_type, data, context, self._now(), origin, new_state)
        for key in (event_type, EVERYTHING):
            for listener in list(self._listeners.get(key, {}).values()):
                listener(event)
