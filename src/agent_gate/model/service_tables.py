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


class Column(Struct, frozen=True):
    name: str
    kind: Literal["text", "integer", "real", "blob"] = "text"
    is_key: bool = False
    """Part of what tells a row from every other."""
    may_be_null: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`{self.name}` is no name of a column: use a-z, 0-9 and _, beginning with a letter")


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
        for step in self.steps:
            if isinstance(step, AddColumn) and (step.column.is_key or not step.column.may_be_null):
                raise ValueError(f"column `{step.column.name}` came later: it can be null, and is no key")
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
