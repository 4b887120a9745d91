"""The shipped schema, and where a database's tables, indexes, views and triggers differ from it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from agent_gate.ledger.sqlite.service_tables import brought

SHIPPED = Path(__file__).with_name("schema.sql")

_AROUND = re.compile(r" ?([(),]) ?")

Objects = dict[tuple[str, str], tuple[str, str]]
"""By type and name: the table that it belongs to, and its text."""


def differences(connection: sqlite3.Connection) -> Iterator[str]:
    """One line for each object that is gone, was added, or is another than the shipped one; services bring tables."""
    found, shipped = _objects(connection), _shipped()
    for name in ("service_tables", *(table.name for table in brought(connection))):
        for key in (("table", name), ("index", f"sqlite_autoindex_{name}_1")):
            if key not in shipped:
                found.pop(key, None)
    for kind, name in shipped.keys() - found.keys():
        yield f"the {kind} `{name}` is gone"
    for kind, name in found.keys() - shipped.keys():
        yield f"{kind} `{name}` was added to the database"
    for kind, name in shipped.keys() & found.keys():
        if found[kind, name] != shipped[kind, name]:
            yield f"the {kind} `{name}` is not the one that agent-gate makes"


@lru_cache(maxsize=1)
def _shipped() -> Objects:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(SHIPPED.read_text())
        return _objects(empty)


def _objects(connection: sqlite3.Connection) -> Objects:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    objects: Objects = {}
    for kind, name, table, sql in rows:
        key = str(kind), str(name)
        while key in objects:  # a second one of that name, which SQLite itself would not make
            key = key[0], f"{key[1]}'"
        objects[key] = str(table), _plain(sql)
    return objects


def _plain(sql: object) -> str:
    """Without the blanks and line breaks in which makers of such texts differ."""
    return _AROUND.sub(r"\1", " ".join(str(sql).split()))
