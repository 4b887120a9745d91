"""Connections for looking back: they read an existing ledger, and never create or migrate one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_gate.ledger.connection import connect
from agent_gate.ledger.migrate import HEAD, revision
from agent_gate.model.errors import StorageError


def open_reader(path: Path | str) -> sqlite3.Connection:
    """A connection that can only read; raises 5001 where there is no ledger of this release's schema."""
    path = Path(path)
    if not path.is_file():
        raise StorageError(
            f"there is no ledger at `{path}`", code=5001, suggestion="name one with --db or AGENT_GATE_DB"
        )
    connection = connect(path, read_only=True)
    try:
        _check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    try:
        found = revision(connection)
    except sqlite3.DatabaseError as error:
        raise StorageError(
            f"cannot read `{path}`: {error}", code=5001, suggestion="restore it from a backup"
        ) from error
    if found is None:
        raise StorageError(
            f"`{path}` is not a ledger of agent-gate", code=5001, suggestion="name another file with --db"
        )
    if found > HEAD:
        raise StorageError(
            f"`{path}` was written by a newer release (schema {found}, ours is {HEAD})",
            code=5001,
            suggestion="upgrade agent-gate",
        )
    if found < HEAD:
        raise StorageError(
            f"`{path}` was written by an older release (schema {found}, ours is {HEAD})",
            code=5001,
            suggestion="run `agent-gate db upgrade`",
        )


@contextmanager
def snapshot_of(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything read inside is the ledger at one moment, whatever is written meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
