"""The tables beside the chain: grants, results that wait, messages about questions, owners' contacts, homes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from agent_gate.ledger.sqlite.backing import is_backed
from agent_gate.model.entry import (
    ClockKnown,
    DropContact,
    DropEntities,
    DropMessage,
    DropOldEntities,
    EntityRow,
    GiveGrant,
    GrantSpent,
    KeepEntities,
    KeepMessage,
    LeaveResult,
    NoteClock,
    PutContact,
    RevokeGrant,
    SeenEntities,
    SideTableChange,
    TakeResults,
    UseGrant,
)
from agent_gate.model.grant import Grant
from agent_gate.model.limits import CLOCK_JUMP_MIN_S
from agent_gate.model.moment import epoch, iso

GRANT_COLUMNS = (
    "grant_id, project, agent_id, tool, signature, key, given_by, roles, call_id, created_at, expires_at, uses,"
    " uses_left"
)
_LIVE = "uses_left > 0 AND revoked_at IS NULL AND expires_at > ?"
LIVE_GRANTS = f"SELECT {GRANT_COLUMNS} FROM grants WHERE {_LIVE} ORDER BY created_at, grant_id"  # noqa: S608
GRANTS_OF = (
    f"SELECT {GRANT_COLUMNS} FROM grants WHERE project = ? AND agent_id = ? AND key = ? AND {_LIVE}"  # noqa: S608
    " ORDER BY expires_at, grant_id"
)
_ITS_OWN = (
    "agent_id = ? AND EXISTS (SELECT 1 FROM entries e WHERE e.call_id = waiting_results.call_id"
    " AND e.agent_id = waiting_results.agent_id)"
)
"""What waits for an agent is the outcome of a call of its own, whatever a row says."""
WAITING = f"SELECT call_id FROM waiting_results WHERE {_ITS_OWN} ORDER BY at, call_id LIMIT ?"  # noqa: S608
WAITING_COUNT = f"SELECT count(*) FROM waiting_results WHERE {_ITS_OWN}"  # noqa: S608
MESSAGES = "SELECT call_id, reference FROM question_messages WHERE channel = ? ORDER BY call_id"
ENTITIES = "SELECT entity_id, state, attributes, last_updated, captured_at FROM ha_entity_snapshot ORDER BY entity_id"


def check(cursor: sqlite3.Connection, item: SideTableChange) -> GrantSpent | ClockKnown | None:
    """What could have changed since the caller looked."""
    if isinstance(item, NoteClock):
        known = known_offset(cursor, item.boot)
        return ClockKnown() if known is not None and abs(known - item.offset_s) < CLOCK_JUMP_MIN_S else None
    if not isinstance(item, UseGrant | RevokeGrant):
        return None
    row = cursor.execute(
        f"SELECT {GRANT_COLUMNS} FROM grants WHERE grant_id = ? AND {_LIVE}",  # noqa: S608
        (item.grant_id, item.at),
    ).fetchone()
    return None if row and is_backed(cursor, grant_of(row)) else GrantSpent(item.grant_id)


def known_offset(cursor: sqlite3.Connection, boot: str) -> float | None:
    """How far the wall clock was ahead of the time since this start of the machine, when somebody last looked."""
    row = cursor.execute("SELECT offset_s FROM clock WHERE boot = ?", (boot,)).fetchone()
    return row[0] if row else None


def write(cursor: sqlite3.Connection, item: SideTableChange) -> None:
    match item:
        case LeaveResult(agent_id, call_id, request_id, at):
            cursor.execute(
                "INSERT INTO waiting_results VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (agent_id, call_id, request_id, at),
            )
        case TakeResults(agent_id, ids):
            for id in ids:
                cursor.execute(
                    "DELETE FROM waiting_results WHERE agent_id = ? AND (call_id = ? OR request_id = ?)",
                    (agent_id, id, id),
                )
        case GiveGrant(grant):
            cursor.execute(
                f"INSERT INTO grants ({GRANT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                _row_of(grant),
            )
        case UseGrant(grant_id):
            cursor.execute("UPDATE grants SET uses_left = uses_left - 1 WHERE grant_id = ?", (grant_id,))
        case RevokeGrant(grant_id, at):
            cursor.execute("UPDATE grants SET revoked_at = ? WHERE grant_id = ?", (at, grant_id))
        case KeepMessage(call_id, channel, reference):
            cursor.execute(
                "INSERT INTO question_messages VALUES (?, ?, ?)"
                " ON CONFLICT (channel, call_id) DO UPDATE SET reference = excluded.reference",
                (channel, call_id, reference),
            )
        case DropMessage(call_id, channel):
            cursor.execute("DELETE FROM question_messages WHERE channel = ? AND call_id = ?", (channel, call_id))
        case PutContact() | DropContact():
            _write_contact(cursor, item)
        case KeepEntities(rows):
            _keep(cursor, rows)
        case DropEntities(entity_ids):
            cursor.executemany("DELETE FROM ha_entity_snapshot WHERE entity_id = ?", [(id,) for id in entity_ids])
        case SeenEntities(at):
            cursor.execute("UPDATE ha_entity_snapshot SET captured_at = ?", (at,))
        case NoteClock(boot, offset_s):
            cursor.execute("DELETE FROM clock")
            cursor.execute("INSERT INTO clock VALUES (?, ?)", (boot, offset_s))
        case DropOldEntities(before):
            cursor.execute("PRAGMA secure_delete = ON")
            cursor.execute("DELETE FROM ha_entity_snapshot WHERE captured_at < ?", (before,))


def _write_contact(cursor: sqlite3.Connection, item: PutContact | DropContact) -> None:
    """A value that gives way leaves nothing behind in the file."""
    cursor.execute("PRAGMA secure_delete = ON")
    if isinstance(item, DropContact):
        cursor.execute("DELETE FROM contact_info WHERE key = ?", (item.key,))
        return
    cursor.execute(
        "INSERT INTO contact_info (key, value, updated_at) VALUES (?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (item.key, item.sealed, item.at),
    )


def _keep(cursor: sqlite3.Connection, rows: Sequence[EntityRow]) -> None:
    cursor.executemany(
        "INSERT INTO ha_entity_snapshot (entity_id, state, attributes, last_updated, captured_at)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (entity_id) DO UPDATE SET state = excluded.state,"
        " attributes = excluded.attributes, last_updated = excluded.last_updated, captured_at = excluded.captured_at",
        [(row.entity_id, row.state, row.attributes, row.last_updated, row.captured_at) for row in rows],
    )


def _row_of(grant: Grant) -> tuple[object, ...]:
    return (
        grant.grant_id,
        grant.project,
        grant.agent_id,
        grant.tool,
        "\n".join(grant.signatures),
        grant.key,
        grant.given_by,
        orjson.dumps(grant.roles).decode(),
        grant.call_id,
        iso(grant.created_at),
        iso(grant.expires_at),
        grant.uses,
        grant.uses_left,
    )


def grant_of(row: Sequence[Any]) -> Grant:
    id, project, agent_id, tool, signature, key, given_by, roles, call_id, created_at, expires_at, uses, left = row
    return Grant(
        grant_id=id,
        project=project,
        agent_id=agent_id,
        tool=tool,
        signatures=tuple(signature.split("\n")),
        key=key,
        given_by=given_by,
        roles=tuple(orjson.loads(roles)),
        call_id=call_id,
        created_at=epoch(created_at),
        expires_at=epoch(expires_at),
        uses=uses,
        uses_left=left,
    )
