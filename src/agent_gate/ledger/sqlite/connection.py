"""Connections to the SQLite file, with the settings that durability and sharing need."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from agent_gate.model.bounds import BUSY_TIMEOUT_S
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Unreadable

OLDEST = (3, 38, 0)
"""The first SQLite with the JSON operators that the views use."""

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors that a damaged file raises; the second where SQLite's own message quotes the damage."""


class readable:
    """A block in which what SQLite cannot read, or a value that it cannot hold, is a fault with a code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UNREADABLE):
            raise Unreadable(error) from error


def connect(path: Path, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """A connection to a ledger, or to a file that is to become one."""
    pragmas = (
        ("query_only = ON",) if read_only else ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0")
    )
    return _connect(path, "ro" if read_only else "rw", pragmas, busy_timeout_s)


def connect_to_look(path: Path) -> sqlite3.Connection:
    """A connection to a file that may be anybody's; it settles what a crash left there, and changes nothing else."""
    return _connect(path, "rw", ("query_only = ON",))


def _connect(
    path: Path, mode: str, pragmas: Sequence[str], busy_timeout_s: float = BUSY_TIMEOUT_S
) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < OLDEST:
        raise StorageError(
            f"Python is linked with SQLite {sqlite3.sqlite_version}",
            code=5001,
            suggestion="use a Python with SQLite 3.38 or newer",
        )
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except UNREADABLE as error:
        if connection is not None:
            connection.close()
        raise StorageError(
            f"cannot open `{path}`: {error}", code=5001, suggestion="is it a ledger of agent-gate, and may you read it?"
        ) from error
    return connection
