"""The home as it was last seen, kept in the ledger: for whoever looks while the server is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import orjson

from agent_gate.model.entry import GATE_PROJECT, Beside, DropEntities, EntityRow, KeepEntities, Work
from agent_gate.model.errors import GateError
from agent_gate.model.limits import (
    HOME_ATTRIBUTES_KEPT_BYTES_MAX,
    HOME_SNAPSHOT_BYTES_MAX,
    HOME_SNAPSHOT_CLOSE_S,
    HOME_SNAPSHOT_ROWS_MAX,
)
from agent_gate.model.moment import iso
from agent_gate.ports import Clock, Ledger
from agent_gate.services.home_assistant.home import Entity, Home

_log = logging.getLogger(__name__)


class Snapshots:
    """Brings the ledger's copy of the home in step, every so often and at the end."""

    def __init__(self, home: Home, ledger: Ledger, clock: Clock, interval_s: float) -> None:
        self._home, self._ledger, self._clock, self._interval_s = home, ledger, clock, interval_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_taking())

    async def close(self) -> None:
        """After one more snapshot, if the ledger takes it in time."""
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        try:
            async with asyncio.timeout(HOME_SNAPSHOT_CLOSE_S):
                await self._try()
        except TimeoutError:
            _log.warning("the home was not kept whole: the ledger is too slow")

    async def take(self) -> None:
        """Write what differs from the ledger's copy, and drop what is no more.

        A home that has not been read whole yet changes nothing: what was known before is better than less.
        """
        if not self._home.is_ready:
            return
        kept, entities = await self._ledger.entity_stamps(), self._home.entities
        gone = [id for id in kept if id not in entities]
        changed = [entity for entity in entities.values() if kept.get(entity.entity_id) != entity.last_updated]
        at = iso(self._clock.now())
        for change in chain(_drops(gone), _keeps(changed, at)):
            await self._ledger.commit(Work(GATE_PROJECT, beside=(change,)))

    async def _keep_taking(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._try()

    async def _try(self) -> None:
        try:
            await self.take()
        except GateError as error:
            _log.warning("the home was not kept, the next time will try again: %s", error)


def _drops(entity_ids: Sequence[str]) -> Iterator[Beside]:
    for at in range(0, len(entity_ids), HOME_SNAPSHOT_ROWS_MAX):
        yield DropEntities(tuple(entity_ids[at : at + HOME_SNAPSHOT_ROWS_MAX]))


def _keeps(entities: Iterable[Entity], captured_at: str) -> Iterator[Beside]:
    """In parts that are small in rows and in bytes."""
    rows: list[EntityRow] = []
    size = 0
    for entity in entities:
        row = _row(entity, captured_at)
        rows.append(row)
        size += len(row.attributes or "") + len(row.state)
        if len(rows) >= HOME_SNAPSHOT_ROWS_MAX or size >= HOME_SNAPSHOT_BYTES_MAX:
            yield KeepEntities(tuple(rows))
            rows, size = [], 0
    if rows:
        yield KeepEntities(tuple(rows))


def _row(entity: Entity, captured_at: str) -> EntityRow:
    attributes = orjson.dumps(entity.attributes, default=dict)
    kept = attributes.decode() if len(attributes) <= HOME_ATTRIBUTES_KEPT_BYTES_MAX else None
    return EntityRow(entity.entity_id, entity.state, kept, entity.last_updated, captured_at)
