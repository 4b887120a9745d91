"""Entities of a home: the table that Home Assistant brings."""

from __future__ import annotations

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.entity_change import DropEntities, DropOldEntities, KeepEntities, SeenEntities


def _keep(writing: Writing, change: KeepEntities) -> None:
    writing.cursor.executemany(
        "INSERT INTO ha_entity_snapshot (entity_id, state, attributes, last_updated, captured_at)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (entity_id) DO UPDATE SET state = excluded.state,"
        " attributes = excluded.attributes, last_updated = excluded.last_updated, captured_at = excluded.captured_at",
        [(row.entity_id, row.state, row.attributes, row.last_updated, row.captured_at) for row in change.rows],
    )


def _drop(writing: Writing, change: DropEntities) -> None:
    gone = [(id,) for id in change.entity_ids]
    writing.cursor.executemany("DELETE FROM ha_entity_snapshot WHERE entity_id = ?", gone)


def _see(writing: Writing, change: SeenEntities) -> None:
    writing.cursor.execute("UPDATE ha_entity_snapshot SET captured_at = ?", (change.at,))


def _drop_old(writing: Writing, change: DropOldEntities) -> None:
    writing.cursor.execute("PRAGMA secure_delete = ON")
    writing.cursor.execute("DELETE FROM ha_entity_snapshot WHERE captured_at < ?", (change.before,))


HANDLERS = (
    Handler(KeepEntities, _keep),
    Handler(DropEntities, _drop),
    Handler(SeenEntities, _see),
    Handler(DropOldEntities, _drop_old),
)
