"""Changes of the table of entities that Home Assistant brings: apart from the core's own, which know no service."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class EntityRow(Struct, frozen=True):
    """One entity of a home as it was last seen."""

    entity_id: str
    state: str
    attributes: str | None
    """JSON; None where there was too much of it to keep."""
    last_updated: str
    captured_at: str


class KeepEntities(Struct, frozen=True):
    """Each in place of what was known of it before."""

    rows: tuple[EntityRow, ...]


class DropEntities(Struct, frozen=True):
    entity_ids: tuple[str, ...]


class SeenEntities(Struct, frozen=True):
    """All that are kept were there at this moment, as they are kept."""

    at: str


class DropOldEntities(Struct, frozen=True):
    """Those that were captured before this moment."""

    before: str


EntityChange: TypeAlias = KeepEntities | DropEntities | SeenEntities | DropOldEntities
