"""The home as it was last seen, kept in the ledger: for whoever looks while the server is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import orjson

from agent_gate.model.bounds import (
    HOME_ATTRIBUTES_KEPT_BYTES_MAX,
    HOME_SNAPSHOT_BYTES_MAX,
    HOME_SNAPSHOT_CLOSE_S,
    HOME_SNAPSHOT_ROWS_MAX,
)
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import GateError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.work import Change, Work
from agent_gate.ports.ledger import Ledger
from agent_gate.services.home_assistant.home import Entity, Home, Remembered
from agent_gate.services.home_assistant.tables import (
    EntityRow,
    drop_entities,
    entity_snapshot,
    entity_stamps,
    keep_entities,
    seen_entities,
)

_SAME_MOMENT_S = 1.0
_log = logging.getLogger(__name__)


class Snapshots:
    """Brings the ledger's copy of the home in step, every so often and at the end."""

    def __init__(self, home: Home, ledger: Ledger, interval_s: float, close_s: float = HOME_SNAPSHOT_CLOSE_S) -> None:
        """`close_s` is how long the last one may take."""
        self._home, self._ledger, self._interval_s, self._close_s = home, ledger, interval_s, close_s
        self._seen_at: float | None = None
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
            async with asyncio.timeout(self._close_s):
                await self._try()
        except TimeoutError:
            _log.warning("the home was not kept whole: the ledger is too slow")

    async def take(self) -> None:
        """Write what differs from the ledger's copy, and drop what is no more.

        A home that has not been read whole yet changes nothing: what was known before is better than less.
        """
        if not self._home.is_ready:
            return
        kept, entities, seen_at = await entity_stamps(self._ledger), self._home.entities, self._home.seen_at
        gone = [id for id in kept if id not in entities]
        changed = [entity for entity in entities.values() if kept.get(entity.entity_id) != entity.last_updated]
        at = iso(seen_at)
        seen: list[Change] = [seen_entities(at)] if len(changed) < len(entities) and self._is_news(seen_at) else []
        for change in chain(_drops(gone), _keeps(changed, at), seen):
            await self._ledger.commit(Work(GATE_PROJECT, changes=(change,)))
        self._seen_at = seen_at

    def _is_news(self, seen_at: float) -> bool:
        """Not while the home is away: it was last seen when it was last seen."""
        return self._seen_at is None or seen_at - self._seen_at >= _SAME_MOMENT_S

    async def _keep_taking(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._try()

    async def _try(self) -> None:
        try:
            await self.take()
        except GateError as error:
            _log.warning("the home was not kept, the next time will try again: %s", error)


async def remembered(ledger: Ledger) -> Remembered | None:
    """Read what the ledger knows of the home; None where it never saw it."""
    rows = await entity_snapshot(ledger)
    found = [read for row in rows if (read := _read(row)) is not None]
    if not found:
        return None
    bare = frozenset(row.entity_id for row in rows if row.attributes is None)
    return Remembered(tuple(entity for entity, _ in found), max(at for _, at in found), bare)


def _read(row: EntityRow) -> tuple[Entity, float] | None:
    """With when it was seen; None where somebody has spoilt it, which keeps no gate from starting."""
    try:
        attributes, seen_at = orjson.loads(row.attributes or "{}"), epoch(row.captured_at)
    except ValueError:
        return None
    if not isinstance(attributes, dict):
        return None
    return Entity(row.entity_id, row.state, attributes, "", row.last_updated), seen_at


def _drops(entity_ids: Sequence[str]) -> Iterator[Change]:
    for at in range(0, len(entity_ids), HOME_SNAPSHOT_ROWS_MAX):
        yield drop_entities(entity_ids[at : at + HOME_SNAPSHOT_ROWS_MAX])


def _keeps(entities: Iterable[Entity], captured_at: str) -> Iterator[Change]:
    """In parts that are small in rows and in bytes."""
    rows: list[EntityRow] = []
    size = 0
    for entity in entities:
        row = _row(entity, captured_at)
        rows.append(row)
        size += len(row.attributes or "") + len(row.state)
        if len(rows) >= HOME_SNAPSHOT_ROWS_MAX or size >= HOME_SNAPSHOT_BYTES_MAX:
            yield keep_entities(rows)
            rows, size = [], 0
    if rows:
        yield keep_entities(rows)


def _row(entity: Entity, captured_at: str) -> EntityRow:
    attributes = orjson.dumps(entity.attributes, default=dict)
    kept = attributes.decode() if len(attributes) <= HOME_ATTRIBUTES_KEPT_BYTES_MAX else None
    return EntityRow(entity.entity_id, entity.state, kept, entity.last_updated, captured_at)
