"""The record as JSON lines, one entry each, for whoever wants to keep or check it elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson

from agent_gate.ledger.sqlite.reader import rows_of
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS, entry_of
from agent_gate.model.entry import Entry


def export(reader: sqlite3.Connection, *, project: str | None = None, run_id: str | None = None) -> Iterator[bytes]:
    """Lines in the order of writing, as of one moment; the lines of a project are its chain, complete."""
    wanted = [(column, value) for column, value in (("project", project), ("run_id", run_id)) if value is not None]
    where = " AND ".join(f"{column} = ?" for column, _ in wanted)
    rows = rows_of(
        reader,
        f"SELECT {ENTRY_COLUMNS} FROM entries {'WHERE ' + where if where else ''} ORDER BY id",  # noqa: S608
        *(value for _, value in wanted),
    )
    return (_line(entry_of(row)) for row in rows)


def _line(entry: Entry) -> bytes:
    fields = entry.to_json(None)
    if entry.body is None:
        fields["erased"] = True
    else:
        fields["body"] = _object(entry.body)
    return orjson.dumps(fields) + b"\n"


def _object(body: bytes) -> Any:
    """The canonical bytes themselves, so that their hash can be taken from the line; a text where it is no JSON."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode()
    return orjson.Fragment(body)
