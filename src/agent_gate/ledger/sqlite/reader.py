"""Connections for looking back: they read an existing ledger, and never create or migrate one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_gate.ledger.sqlite.connection import UNREADABLE, connect
from agent_gate.ledger.sqlite.migrate import HEADS, is_newer, named, revisions
from agent_gate.model.errors import StorageError


class NoLedgerError(StorageError):
    """There is no file, or it is something else; not raised for a ledger of another release."""

    default_code = 5001


def open_reader(path: Path | str) -> sqlite3.Connection:
    """A connection that can only read; raises 5001 where there is no ledger of this release's schema."""
    path = Path(path)
    if not path.is_file():
        raise NoLedgerError(f"there is no ledger at `{path}`", suggestion="name one with --db or AGENT_GATE_DB")
    try:
        connection = connect(path, read_only=True)
    except StorageError as error:
        raise NoLedgerError(error.problem.detail, suggestion=error.problem.suggestion) from error
    try:
        _check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    try:
        found = revisions(connection)
    except UNREADABLE as error:
        raise NoLedgerError(f"cannot read `{path}`: {error}", suggestion="restore it from a backup") from error
    if not found:
        raise NoLedgerError(f"`{path}` is not a ledger of agent-gate", suggestion="name another file with --db")
    if found != HEADS:
        age, remedy = (
            ("a newer", "upgrade agent-gate") if is_newer(found) else ("an older", "run `agent-gate db upgrade`")
        )
        raise StorageError(
            f"`{path}` was written by a release with {age} schema ({named(found)}, ours is {named(HEADS)})",
            code=5001,
            suggestion=remedy,
        )


@contextmanager
def one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything read inside is the ledger as it was at one moment, whatever is written meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def rows_of(connection: sqlite3.Connection, sql: str, *values: object) -> Iterator[Any]:
    """The rows of one question, as they come; what SQLite cannot read is a fault with a code."""
    try:
        yield from connection.execute(sql, values)
    except UNREADABLE as error:
        raise StorageError(
            f"the ledger cannot be read: {error}", code=5003, suggestion="run `agent-gate verify`"
        ) from error


def row_of(connection: sqlite3.Connection, sql: str, *values: object) -> Any:
    """The first row, or None."""
    return next(rows_of(connection, sql, *values), None)
