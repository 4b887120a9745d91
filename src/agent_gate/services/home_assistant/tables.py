"""The table of entities as they were last seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from agent_gate.model.service_tables import Column, DropRows, PutRows, SetColumn, Table
from agent_gate.ports.ledger import Ledger

ENTITIES = Table(
    "ha_entity_snapshot",
    (
        Column("entity_id", is_key=True),
        Column("state"),
        Column("attributes", may_be_null=True),
        Column("last_updated"),
        Column("captured_at"),
    ),
    moment="captured_at",
)


class EntityRow(Struct, frozen=True):
    """One entity of a home as it was last seen."""

    entity_id: str
    state: str
    attributes: str | None
    """JSON; None where there was too much of it to keep."""
    last_updated: str
    captured_at: str


def keep_entities(rows: Iterable[EntityRow]) -> PutRows:
    """Each in place of what was known of it before."""
    return PutRows(ENTITIES, tuple(map(structs.astuple, rows)))


def drop_entities(entity_ids: Iterable[str]) -> DropRows:
    return DropRows(ENTITIES, tuple((entity_id,) for entity_id in entity_ids))


def seen_entities(at: str) -> SetColumn:
    """All that are kept were there at this moment, as they are kept."""
    return SetColumn(ENTITIES, "captured_at", at)


async def entity_snapshot(ledger: Ledger) -> Sequence[EntityRow]:
    """The home as it was last seen, by entity id."""
    return [EntityRow(*row) for row in await ledger.rows_of(ENTITIES)]  # type: ignore[arg-type]  # as the columns say


async def entity_stamps(ledger: Ledger) -> Mapping[str, str]:
    """Find when each of those entities had last been updated."""
    return dict(await ledger.rows_of(ENTITIES, columns=("entity_id", "last_updated")))  # type: ignore[arg-type]
