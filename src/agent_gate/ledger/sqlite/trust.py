"""Trust in a database: it must still be the one that was acknowledged and anchored; recovery refuses to fork."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent_gate.ledger import anchor
from agent_gate.ledger.anchor import AnchorKey
from agent_gate.ledger.files import BEGIN_ANEW, LedgerFiles, sync_directory
from agent_gate.ledger.sqlite.connection import UNREADABLE
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Heads


def check_against_anchor(connection: sqlite3.Connection, files: LedgerFiles, key: AnchorKey) -> Heads:
    heads = anchor.read(files.anchor, key)
    if anchor.is_blank(files.anchor) and _has_entries(connection):
        raise StorageError(
            f"the anchor `{files.anchor}` is gone",
            code=5004,
            suggestion="restore it from a backup: without it nobody can tell whether entries were changed",
        )
    check_heads(connection, heads)
    return heads


def check_not_deleted(files: LedgerFiles) -> None:
    """A new database beside an old anchor would be a second past."""
    if was_deleted(files):
        raise StorageError(
            f"`{files.db}` is gone, but `{files.anchor}` is not, which tells of its entries",
            code=5004,
            suggestion=BEGIN_ANEW,
        )


def was_deleted(files: LedgerFiles) -> bool:
    """Tell whether there was a ledger here once: its anchor has outlived it."""
    return (not files.db.exists() or not files.db.stat().st_size) and not anchor.is_blank(files.anchor)


def set_aside(files: LedgerFiles, at: str) -> list[Path]:
    """Keep what a deleted ledger left, so that a new one can begin and nobody can say that there was none before.

    SQLite would play the old log back into a new database, and break it.
    """
    files.directory.mkdir(mode=0o700, exist_ok=True)
    kept = []
    for name, left in (("anchor", files.anchor), *((end[1:], files.beside(end)) for end in ("-wal", "-journal"))):
        if left.exists():
            kept.append(left.rename(files.directory / f"{name}.{at.replace(':', '')}"))
    files.beside("-shm").unlink(missing_ok=True)
    for directory in (files.directory, files.db.parent):
        sync_directory(directory)
    return kept


def _has_entries(connection: sqlite3.Connection) -> bool:
    try:
        return connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone() is not None
    except UNREADABLE as error:
        raise StorageError(f"the ledger cannot be read: {error}", code=5004, suggestion=RESTORE) from error


def check_heads(connection: sqlite3.Connection, heads: Heads) -> None:
    """Each chain must still hold, at its place, the entry that these heads name."""
    for project, (count, hash) in heads.items():
        try:
            row = connection.execute(
                "SELECT hash FROM entries WHERE project = ? AND seq = ?", (project, count)
            ).fetchone()
        except UNREADABLE as error:
            raise StorageError(f"the ledger cannot be read: {error}", code=5004, suggestion=RESTORE) from error
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
