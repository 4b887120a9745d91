"""Undone calls: a call is undone once, whoever asks for it and from whichever process."""

from __future__ import annotations

import sqlite3

from agent_gate.model.undone import Undone

# The pluses: by the index of the chain SQLite would walk through all that the project has written since.
UNDOINGS = (
    "SELECT e.call_id, (SELECT s.status FROM entries s WHERE s.call_id = e.call_id AND s.kind = 'settled')"
    " FROM entries e WHERE e.tool = 'gate.revert' AND e.kind IN ('performing', 'settled')"
    " AND +e.project = :project AND e.body ->> '$.resources.call_id' = :call"
    " AND +e.seq > (SELECT min(seq) FROM entries WHERE +project = :project AND call_id = :call) ORDER BY +e.id"
)


def undone(connection: sqlite3.Connection, project: str, call_id: str) -> Undone | None:
    """None also where an undoing was refused or failed: then the call may be undone by another."""
    for by, status in connection.execute(UNDOINGS, {"project": project, "call": call_id}).fetchall():
        if status in ("success", "unknown", None):
            return Undone(call_id, by, status)
    return None
