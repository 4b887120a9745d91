"""Listeners for events of the home, whatever connection they come by."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.faults import Lost, Refused
from agent_gate.services.home_assistant.link import EventHandler, Link

_INDISPENSABLE = "state_changed"
_log = logging.getLogger(__name__)


class Hearing:
    """A handler that fails is told of and stays; the others hear the event all the same."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[EventHandler, ...]] = {}
        self._link: Link | None = None
        self._links = 0
        self._numbers: dict[str, int] = {}
        """Of the subscriptions at this link; 0 while one is under way, and where it was refused."""
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, event_type: str, handler: EventHandler) -> Callable[[], None]:
        """From now on and on every later link; the returned function ends it."""

        def heard(event: Mapping[str, Json]) -> None:
            handler(event)

        self._handlers[event_type] = (*self._handlers.get(event_type, ()), heard)
        if self._link is not None and self._link.is_open:
            self._later(self._subscribe(self._link, event_type))

        def off() -> None:
            self._remove(event_type, heard)

        return off

    async def attach(self, link: Link) -> None:
        """Hear by this link; Refused where it does not even let the changes of states be heard."""
        self._link, self._numbers = link, {}
        self._links += 1
        for event_type in tuple(self._handlers):
            await self._subscribe(link, event_type)

    def heard_by(self, event_type: str) -> int:
        """The number of the link by which it is heard now; 0 where there is none, or none that lets it be heard."""
        is_open = self._link is not None and self._link.is_open
        return self._links if is_open and self._numbers.get(event_type) else 0

    async def settle(self) -> None:
        """Until nothing is under way; it ends with the link at the latest."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _subscribe(self, link: Link, event_type: str) -> None:
        if event_type in self._numbers or link is not self._link:
            return
        numbers = self._numbers
        numbers[event_type] = 0
        try:
            numbers[event_type] = await link.subscribe(event_type, self._taker(event_type))
        except Refused as refused:
            if event_type == _INDISPENSABLE:
                raise
            _log.info("home assistant does not let the gate hear `%s`: %s", event_type, refused.reason)
        if event_type not in self._handlers:
            await self._unsubscribe(link, event_type)

    async def _unsubscribe(self, link: Link, event_type: str) -> None:
        number = self._numbers.pop(event_type, 0) if link is self._link else 0
        if number:
            await link.unsubscribe(number)

    def _remove(self, event_type: str, heard: EventHandler) -> None:
        left = tuple(known for known in self._handlers.get(event_type, ()) if known is not heard)
        if left:
            self._handlers[event_type] = left
            return
        self._handlers.pop(event_type, None)
        if self._numbers.get(event_type) and self._link is not None and self._link.is_open:
            self._later(self._unsubscribe(self._link, event_type))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            with suppress(Lost, Refused):
                await work

        task = asyncio.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _taker(self, event_type: str) -> EventHandler:
        def take(event: Mapping[str, Json]) -> None:
            for heard in self._handlers.get(event_type, ()):
                try:
                    heard(event)
                except Exception as error:
                    kind = type(error).__name__
                    _log.error("an event `%s` of home assistant could not be handled: %s", event_type, kind)

        return take
