"""Keeping what is known of the home in step with it: by events over a connection, by polls without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from agent_gate.model.bounds import HOME_SETTLE_S, HOME_STARTING_INTERVAL_S
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.echoes import Echoes
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.hearing import Hearing
from agent_gate.services.home_assistant.home import Home
from agent_gate.services.home_assistant.link import Link
from agent_gate.services.home_assistant.reading import entities_of, entity_of, services_of, user_of
from agent_gate.services.home_assistant.registry import CHANGED_BY, PARTS, PLACES, read_parts
from agent_gate.services.home_assistant.rest import Rest
from agent_gate.services.home_assistant.things import Entity, TokenUser

Pause = Callable[[float], Awaitable[None]]


class Sync:
    """Reads the home whole whenever there is a new connection, and follows it from there."""

    def __init__(self, home: Home, hearing: Hearing, echoes: Echoes, rest: Rest, pause: Pause) -> None:
        self._home, self._hearing, self._echoes, self._rest, self._pause = home, hearing, echoes, rest, pause
        self._touched: dict[str, tuple[str, Entity | None]] | None = None
        """Entities by the events since the subscription, with the moment; None once the home has been read whole."""
        self._outdated: set[str] = set()
        self._news = asyncio.Event()
        self.user: TokenUser | None = None
        """By whose id the changes are known that the gate's calls make."""
        self.stands = asyncio.Event()
        """Set while the home is in step over a connection."""
        hearing.on("state_changed", self._state_changed)
        for event_type, part in CHANGED_BY.items():
            hearing.on(event_type, partial(self._part_changed, part))

    async def keep(self, link: Link) -> None:
        """In step for as long as the link lasts; ends only by Lost or Refused."""
        self._touched = {}
        link.ended.add_done_callback(lambda _: self._home.out_of_step())
        await self._hearing.attach(link)
        self._home.version = link.version
        self.user = await own_user(link)
        self._echoes.user_id = self.user.user_id if self.user else ""
        running = await runs(link)
        while not running:
            await self._read_states(link, whole=False)
            await self._pause(HOME_STARTING_INTERVAL_S)
            running = await runs(link)
        self._take_outdated()
        await self._read_states(link, whole=True)
        await self._read_parts(link, PARTS)
        self._home.in_step(live=True)
        self.stands.set()
        while True:
            await self._news.wait()
            await self._pause(HOME_SETTLE_S)
            await self._read_parts(link, self._take_outdated())

    def lost(self) -> None:
        """The link has ended."""
        self.stands.clear()
        self._home.out_of_step()

    async def poll(self) -> bool:
        """One look without a connection; False where the server is not running and what it says is not the whole."""
        config = await self._rest.config()
        if not _is_running(config):
            return False
        entities = entities_of(await self._rest.states())
        services = None if self._home.services else services_of(await self._rest.services())
        self._home.version = str(config.get("version") or self._home.version)
        self._home.replace_entities(entities)
        self._home.learn(services=services)
        self._home.in_step(live=False)
        return True

    async def _read_states(self, link: Link, *, whole: bool) -> None:
        await link.command("get_states", in_order=partial(self._merge, whole=whole))

    async def _read_parts(self, link: Link, parts: Collection[str]) -> None:
        await read_parts(link, self._home, parts)
        self._home.settle(not self._outdated & PLACES)

    def _merge(self, rows: Json, *, whole: bool) -> None:
        """Take what was fetched, unless an event has said something newer since the subscription.

        Not `whole`: the server still starts and leaves gaps, and nothing is dropped for them.
        """
        fetched = {entity.entity_id: entity for entity in entities_of(rows)}
        for entity_id, (moment, entity) in (self._touched or {}).items():
            known = fetched.get(entity_id)
            if known is not None and known.last_updated >= moment:
                continue
            if entity is not None:
                fetched[entity_id] = entity
            else:
                fetched.pop(entity_id, None)
        if whole:
            self._home.replace_entities(fetched.values())
            self._touched = None
        else:
            for entity in fetched.values():
                self._home.put(entity)

    def _state_changed(self, event: Mapping[str, Json]) -> None:
        data = event["data"]
        new = data["new_state"]
        if new is None:
            self._home.drop(data["entity_id"])
            if self._touched is not None:
                self._touched[data["entity_id"]] = (str(event.get("time_fired") or ""), None)
        elif (entity := entity_of(new)) is not None:
            self._home.put(entity)
            if self._echoes.is_listening and entity.context_id:
                self._echoes.note(entity, new["context"])
            if self._touched is not None:
                self._touched[entity.entity_id] = (entity.last_updated, entity)

    def _part_changed(self, part: str, _: Mapping[str, Json]) -> None:
        self._outdated.add(part)
        self._home.settle(not self._outdated & PLACES)
        self._news.set()

    def _take_outdated(self) -> set[str]:
        """Take what is to be read again; what changes from now on counts anew."""
        self._news.clear()
        outdated, self._outdated = self._outdated, set()
        return outdated


def _is_running(config: Json) -> bool:
    return isinstance(config, dict) and config.get("state", "RUNNING") == "RUNNING"


async def runs(link: Link) -> bool:
    """Tell whether the server has started."""
    return _is_running(await link.command("get_config"))


async def own_user(link: Link) -> TokenUser | None:
    """Find whose token opened the link; None where the server does not say."""
    try:
        return user_of(await link.command("auth/current_user"))
    except Refused:
        return None
