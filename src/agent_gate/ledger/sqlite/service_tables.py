"""Tables of services in SQLite: their DDL, which of them are there, and their rows.

Every name in these statements is checked by `model/service_tables.py`, or was when its table was made.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_gate.model.service_tables import LEDGERS_OWN, Column, Table, Value

MADE = (
    "CREATE TABLE IF NOT EXISTS service_tables ("
    "name TEXT PRIMARY KEY, service TEXT NOT NULL, steps INTEGER NOT NULL, moment TEXT NOT NULL, call TEXT NOT NULL)"
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class Brought(NamedTuple):
    """A table of a service, as the ledger keeps house of it."""

    name: str
    moment: str
    call: str


_FROM_MIGRATIONS = (Brought("ha_entity_snapshot", "captured_at", ""),)
"""Tables of services that came with migrations of the ledger's own, before services brought theirs."""


def brought(connection: sqlite3.Connection) -> Iterator[Brought]:
    yield from _FROM_MIGRATIONS
    if _has(connection, "service_tables"):
        for row in connection.execute("SELECT name, moment, call FROM service_tables").fetchall():
            # Whoever has the file could write another, or name what is no service's.
            if row[0] not in LEDGERS_OWN and all(_NAME.fullmatch(name) for name in row if name):
                yield Brought(*row)


def steps_taken(connection: sqlite3.Connection, service: str) -> int:
    if not _has(connection, "service_tables"):
        return 0
    row = connection.execute("SELECT max(steps) FROM service_tables WHERE service = ?", (service,)).fetchone()
    return int(row[0] or 0)


def _has(connection: sqlite3.Connection, table: str) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(sql, (table,)).fetchone() is not None


def table_sql(table: Table) -> str:
    columns = ", ".join(map(column_sql, table.columns))
    return f"CREATE TABLE {quoted(table.name)} ({columns}, PRIMARY KEY ({', '.join(map(quoted, table.key))}))"


def quoted(name: str) -> str:
    """A name that may be a word of SQL; in double quotes SQLite would take an unknown one for a text."""
    return f"[{name}]"


def column_sql(column: Column) -> str:
    return f"{quoted(column.name)} {column.kind.upper()}{'' if column.may_be_null else ' NOT NULL'}"


def rows_of(
    connection: sqlite3.Connection, table: Table, where: Mapping[str, Value], columns: Sequence[str]
) -> list[tuple[Value, ...]]:
    """By key; none where the table was not made yet."""
    known = {column.name for column in table.columns}
    if not known >= {*where, *columns}:
        raise ValueError(f"table `{table.name}` has no column `{min({*where, *columns} - known)}`")
    if not _has(connection, table.name):
        return []
    names = columns or [column.name for column in table.columns]
    asked = " AND ".join(f"{quoted(name)} IS ?" for name in where)
    sql = (
        f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table.name)}{f' WHERE {asked}' if where else ''}"  # noqa: S608
        f" ORDER BY {', '.join(map(quoted, table.key))}"
    )
    return connection.execute(sql, tuple(where.values())).fetchall()
