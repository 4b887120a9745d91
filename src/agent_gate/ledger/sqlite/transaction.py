"""One transaction for a group of works: none of it stays where the storage fails; a work at fault fails alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from agent_gate.ledger.sqlite.apply import apply
from agent_gate.ledger.sqlite.group import Group
from agent_gate.model.committed import Committed
from agent_gate.model.errors import StorageError
from agent_gate.model.work import Work
from agent_gate.ports.examining import Heads

Result = Committed | Exception


@dataclass(slots=True)
class Transacted:
    results: list[Result] = field(default_factory=list)
    """One for each work, up to the fault of the storage."""
    fault: Exception | None = None
    """The fault; what follows it is not done."""
    moved: Heads = field(default_factory=dict)
    """The ends of the chains that grew."""
    wal_bytes: int = 0
    """Bytes by which the write-ahead log grew: about."""


def transact(connection: sqlite3.Connection, take: Callable[[], Sequence[Work]], instance: str) -> Transacted:
    """The works are taken once the transaction is open: whoever came until then belongs to it."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return Transacted(fault=error)
    works = take()
    try:
        group = Group(connection)
        results: list[Result] = [apply(group, work, instance) for work in works]
        group.write()
    except Exception as error:
        _roll_back(connection)
        if _is_of_the_storage(error):
            return Transacted(fault=error)
        return _one_by_one(connection, works, instance) if len(works) > 1 else Transacted([_unwritable(error)])
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _write_over_what_failed(connection)
        return Transacted(fault=error)
    return Transacted(results, None, group.moved, group.wal_bytes)


def _one_by_one(connection: sqlite3.Connection, works: Sequence[Work], instance: str) -> Transacted:
    done = Transacted()
    for work in works:
        one = transact(connection, partial(list, [work]), instance)
        done.results += one.results
        done.moved |= one.moved
        done.wal_bytes += one.wal_bytes
        if one.fault is not None:
            done.fault = one.fault
            break
    return done


def _write_over_what_failed(connection: sqlite3.Connection) -> None:
    """A commit whose sync failed stands whole in the log and would count after a crash: a void one takes its place.

    It needs no room that the log did not have, and is written there even if its own sync fails as well.
    """
    _roll_back(connection)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO blobs VALUES ('void', '')")
        connection.execute("DELETE FROM blobs WHERE hash = 'void'")
        connection.execute("COMMIT")
    except sqlite3.Error:
        _roll_back(connection)


def _is_of_the_storage(error: Exception) -> bool:
    """The disk or the file failed, not one piece of work."""
    return isinstance(error, sqlite3.OperationalError | sqlite3.InternalError) or type(error) is sqlite3.DatabaseError


def _unwritable(error: Exception) -> StorageError:
    refused = StorageError(
        f"this entry cannot be written: {type(error).__name__}: {error}", suggestion="please report it: it is a defect"
    )
    refused.__cause__ = error
    return refused


def _roll_back(connection: sqlite3.Connection) -> None:
    """Also where SQLite has already done so; otherwise every other process would wait for this one."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
