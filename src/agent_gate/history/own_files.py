"""The gate's own files as recorded runs knew them, so that judging again protects what was protected then."""

from __future__ import annotations

import sqlite3

from agent_gate.ledger.sqlite.reader import rows_of
from agent_gate.model.codec import restore


def own_files(reader: sqlite3.Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What no tool may write, and what none may read either: each path of any recorded run, once."""
    protected: dict[str, None] = {}
    secret: dict[str, None] = {}
    rows = rows_of(
        reader, "SELECT DISTINCT body -> '$.surroundings' FROM entries WHERE kind = 'run' AND body IS NOT NULL"
    )
    for (text,) in rows:
        around = restore(text.encode()) if text else {}
        protected.update(dict.fromkeys(around.get("protected", ())))
        secret.update(dict.fromkeys(around.get("secret", ())))
    return tuple(protected), tuple(secret)
