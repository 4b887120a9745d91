"""Tables that a service brings: what is in them, the steps that led there, and the changes that are made in them.

Nothing here is the language of one database: a ledger makes its own DDL and queries from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Value, ...]
"""One value for each column, in the order of the columns."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_KINDS: Mapping[str, type | tuple[type, ...]] = {"text": str, "integer": int, "real": (int, float), "blob": bytes}
_INTEGERS = range(-(2**63), 2**63)
LEDGERS_OWN = frozenset(
    (
        *("alembic_version", "audit_log", "blobs", "clock", "contact_info", "counters", "entries"),
        *("grants", "ha_command_log", "ha_entity_snapshot", "heads", "open_work", "outbox"),
        *("pending_requests", "question_messages", "refusals", "requests", "runs"),
        *("service_tables", "snapshots", "tool_calls", "tool_results", "waiting_results"),
    )
)
"""Tables and views that a ledger keeps itself; no service brings one of that name."""
_RESERVED = ("sqlite_", "pg_")
"""Beginnings of names that databases keep for themselves."""


class Column(Struct, frozen=True):
    name: str
    kind: Literal["text", "integer", "real", "blob"] = "text"
    is_key: bool = False
    """Part of what tells a row from every other."""
    may_be_null: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`{self.name}` is no name of a column: use a-z, 0-9 and _, beginning with a letter")
        if self.kind not in _KINDS:  # which stands in the DDL as it is
            raise ValueError(f"column `{self.name}` is of no kind that there is: use {', '.join(_KINDS)}")

    def why_unfit(self, value: object) -> str:
        """Say why a value cannot stand in the column; empty where it can."""
        if value is None:
            return "" if self.may_be_null else f"`{self.name}` is not null"
        if isinstance(value, bool) or not isinstance(value, _KINDS[self.kind]):
            return f"`{self.name}` is of kind {self.kind}, and not {type(value).__name__}"
        if isinstance(value, int) and value not in _INTEGERS:
            return f"`{self.name}` holds integers of 64 bits"
        if isinstance(value, str) and not _is_unicode(value):
            return f"`{self.name}` holds text, of which a lone surrogate is none"
        return ""


class Table(Struct, frozen=True):
    name: str
    columns: tuple[Column, ...]
    moment: str = ""
    """The column that says, as ISO 8601, from when a row is: `db retain` drops what is older than it keeps."""
    call: str = ""
    """The column that says which call a row is from: erasing the call drops its rows."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`{self.name}` is no name of a table: use a-z, 0-9 and _, beginning with a letter")
        if not self.key or len(set(names)) < len(names):
            raise ValueError(f"table `{self.name}` needs a key, and each of its columns once")
        for told in filter(None, (self.moment, self.call)):
            if told not in names:
                raise ValueError(f"table `{self.name}` has no column `{told}`")

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.is_key)


class AddColumn(Struct, frozen=True):
    """A column that a table did not have at first; it is null in the rows that were there."""

    table: str
    column: Column


Step: TypeAlias = Table | AddColumn
"""A table is made as it first was; what came later are steps of their own."""


class ServiceTables(Struct, frozen=True):
    """The tables of one service, by the steps of all its versions: a ledger makes those that it has not made yet."""

    service: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for table in (step for step in self.steps if isinstance(step, Table)):
            if not table.name.startswith(f"{self.service}_"):
                raise ValueError(f"table `{table.name}` does not begin with `{self.service}_`, the name of its service")
            if table.name in LEDGERS_OWN or table.name.startswith(_RESERVED):
                raise ValueError(f"table `{table.name}` has a name of the ledger's own")
        for step in self.steps:
            if isinstance(step, AddColumn) and (step.column.is_key or not step.column.may_be_null):
                raise ValueError(f"column `{step.column.name}` came later: it can be null, and is no key")
        made = [step.name for step in self.steps if isinstance(step, Table)]
        if len(set(made)) < len(made):
            raise ValueError(f"service `{self.service}` makes a table twice")
        self.tables  # noqa: B018 -- a step without its table is told at once

    @property
    def tables(self) -> Mapping[str, Table]:
        """All of them as they are after the last step, by name."""
        found: dict[str, Table] = {}
        for step in self.steps:
            if isinstance(step, Table):
                found[step.name] = step
            elif step.table in found:
                before = found[step.table]
                found[step.table] = Table(before.name, (*before.columns, step.column), before.moment, before.call)
            else:
                raise ValueError(f"there is no table `{step.table}` to add `{step.column.name}` to")
        return found


class MakeTables(Struct, frozen=True):
    """Take the steps of a service that were not taken yet."""

    tables: ServiceTables


class PutRows(Struct, frozen=True):
    """Write rows, each in place of the one with the same key."""

    table: Table
    rows: tuple[Row, ...]


class DropRows(Struct, frozen=True):
    """Remove the rows with these keys."""

    table: Table
    keys: tuple[Row, ...]


class SetColumn(Struct, frozen=True):
    """Give every row the same value in one column."""

    table: Table
    column: str
    value: Value


class DropOldRows(Struct, frozen=True):
    """Remove what is from before a moment from every table that says from when its rows are, leaving nothing behind."""

    before: str


TableChange: TypeAlias = MakeTables | PutRows | DropRows | SetColumn | DropOldRows


def why_refused(change: object, tables: Mapping[str, Table]) -> str:
    """Say why a change of rows is none that whoever has these tables can make; empty where it is.

    Looked at before anything is written: a ledger that fails at it would take the result of the call with it.
    """
    if not isinstance(change, PutRows | DropRows | SetColumn):
        return f"{type(change).__name__} is no change of rows"
    table = tables.get(change.table.name)
    if table != change.table or table is None:
        return f"table `{change.table.name}` is not one of its own"
    by_name = {column.name: column for column in table.columns}
    if isinstance(change, SetColumn):
        column = by_name.get(change.column)
        return column.why_unfit(change.value) if column else f"table `{table.name}` has no column of that name"
    is_put = isinstance(change, PutRows)
    columns = table.columns if is_put else [by_name[name] for name in table.key]
    for row in change.rows if isinstance(change, PutRows) else change.keys:
        if not isinstance(row, tuple | list) or len(row) != len(columns):
            return f"a {'row' if is_put else 'key'} of `{table.name}` has {len(columns)} values"
        for column, value in zip(columns, row, strict=True):
            if why := column.why_unfit(value):
                return f"table `{table.name}`: {why}"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
