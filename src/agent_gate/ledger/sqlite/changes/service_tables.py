"""Tables that services bring: made step by step, and changed by what their declarations say."""

from __future__ import annotations

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.ledger.sqlite.service_tables import (
    MADE,
    brought,
    column_sql,
    quoted,
    steps_taken,
    table_sql,
)
from agent_gate.model.service_tables import DropOldRows, DropRows, MakeTables, PutRows, SetColumn, Table


def _make(writing: Writing, change: MakeTables) -> None:
    cursor, tables = writing.cursor, change.tables
    cursor.execute(MADE)
    taken = steps_taken(cursor, tables.service)
    for step in tables.steps[taken:]:
        if isinstance(step, Table):
            cursor.execute(table_sql(step))
        else:
            cursor.execute(f"ALTER TABLE {quoted(step.table)} ADD COLUMN {column_sql(step.column)}")
    rows = [
        (table.name, tables.service, len(tables.steps), table.moment, table.call) for table in tables.tables.values()
    ]
    cursor.executemany("INSERT OR REPLACE INTO service_tables VALUES (?, ?, ?, ?, ?)", rows)


def _put(writing: Writing, change: PutRows) -> None:
    table = change.table
    names = [column.name for column in table.columns]
    others = [name for name in names if name not in table.key]
    given = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    sql = (
        f"INSERT INTO {quoted(table.name)} ({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        f" ON CONFLICT ({', '.join(map(quoted, table.key))}) DO {f'UPDATE SET {given}' if others else 'NOTHING'}"
    )
    writing.cursor.executemany(sql, change.rows)


def _drop(writing: Writing, change: DropRows) -> None:
    where = " AND ".join(f"{quoted(name)} = ?" for name in change.table.key)
    writing.cursor.executemany(f"DELETE FROM {quoted(change.table.name)} WHERE {where}", change.keys)  # noqa: S608


def _set(writing: Writing, change: SetColumn) -> None:
    writing.cursor.execute(f"UPDATE {quoted(change.table.name)} SET {quoted(change.column)} = ?", (change.value,))  # noqa: S608


def _drop_old(writing: Writing, change: DropOldRows) -> None:
    writing.cursor.execute("PRAGMA secure_delete = ON")
    for table in brought(writing.cursor):
        if table.moment:
            sql = f"DELETE FROM {quoted(table.name)} WHERE {quoted(table.moment)} < ?"  # noqa: S608 -- names of ours
            writing.cursor.execute(sql, (change.before,))


HANDLERS = (
    Handler(MakeTables, _make),
    Handler(PutRows, _put),
    Handler(DropRows, _drop),
    Handler(SetColumn, _set),
    Handler(DropOldRows, _drop_old),
)
