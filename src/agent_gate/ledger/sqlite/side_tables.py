"""Reads of the side tables: grants, results that wait, messages about questions, the clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from agent_gate.model.grant import Grant
from agent_gate.model.moment import epoch

GRANT_COLUMNS = (
    "grant_id, project, agent_id, tool, signature, key, given_by, roles, call_id, created_at, expires_at, uses,"
    " uses_left"
)
_LIVE = "uses_left > 0 AND revoked_at IS NULL AND expires_at > ?"
LIVE_GRANTS = f"SELECT {GRANT_COLUMNS} FROM grants WHERE {_LIVE} ORDER BY created_at, grant_id"  # noqa: S608
LIVE_GRANT = f"SELECT {GRANT_COLUMNS} FROM grants WHERE grant_id = ? AND {_LIVE}"  # noqa: S608
GRANTS_OF = (
    f"SELECT {GRANT_COLUMNS} FROM grants WHERE project = ? AND agent_id = ? AND key = ? AND {_LIVE}"  # noqa: S608
    " ORDER BY expires_at, grant_id"
)
_ITS_OWN = (
    "agent_id = ? AND EXISTS (SELECT 1 FROM entries e WHERE e.call_id = waiting_results.call_id"
    " AND e.agent_id = waiting_results.agent_id)"
)
"""Condition on a row: only the outcome of a call of its own waits for an agent, whatever the row says."""
WAITING = f"SELECT call_id FROM waiting_results WHERE {_ITS_OWN} ORDER BY at, call_id LIMIT ?"  # noqa: S608
WAITING_COUNT = f"SELECT count(*) FROM waiting_results WHERE {_ITS_OWN}"  # noqa: S608
MESSAGES = "SELECT call_id, reference FROM question_messages WHERE channel = ? ORDER BY call_id"


def known_offset(cursor: sqlite3.Connection, boot: str) -> float | None:
    """Tell how far the wall clock was ahead of the time since this start of the machine, when somebody last looked."""
    row = cursor.execute("SELECT offset_s FROM clock WHERE boot = ?", (boot,)).fetchone()
    return row[0] if row else None


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
