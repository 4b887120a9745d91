"""Whether a database still is the one that was acknowledged and anchored; recovery refuses to fork."""

from __future__ import annotations

import sqlite3

from agent_gate.ledger import anchor
from agent_gate.ledger.anchor import AnchorKey, Heads
from agent_gate.ledger.files import LedgerFiles
from agent_gate.model.errors import StorageError


def check_against_anchor(connection: sqlite3.Connection, files: LedgerFiles, key: AnchorKey) -> Heads:
    heads = anchor.read(files.anchor, key)
    check_heads(connection, heads)
    return heads


def check_heads(connection: sqlite3.Connection, heads: Heads) -> None:
    """Each chain must still hold, at its place, the entry that these heads name."""
    for project, (count, hash) in heads.items():
        try:
            row = connection.execute(
                "SELECT hash FROM entries WHERE project = ? AND seq = ?", (project, count)
            ).fetchone()
        except sqlite3.OperationalError as error:
            raise StorageError(f"the ledger's table is gone: {error}", code=5004, suggestion=RESTORE) from error
        if row is None:
            raise StorageError(
                f"project `{project}` had {count} entries when it was anchored, and the last of them are missing",
                code=5004,
                suggestion=RESTORE,
            )
        if row[0] != hash:
            raise StorageError(
                f"entry {count} of project `{project}` is not the one that was anchored", code=5004, suggestion=RESTORE
            )


RESTORE = "restore the database from a backup, or run `agent-gate verify` for the whole finding"
