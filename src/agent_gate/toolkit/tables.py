"""Tables of services: made when a gate opens, and reached through a few plain verbs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import ConfigError, ToolError
from agent_gate.model.service_tables import DropRows, MakeTables, PutRows, Row, ServiceTables, Value, why_refused
from agent_gate.model.tool import Json
from agent_gate.model.work import Work
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.services import ToolProvider
from agent_gate.ports.tools import WithRows


class ServiceRows:
    """The tables of one service, in whichever ledger its gate has; each call of a verb is one transaction."""

    def __init__(self, ledger: Ledger, tables: ServiceTables) -> None:
        self._ledger, self._tables = ledger, tables.tables

    async def find(self, table: str, **where: Value) -> Sequence[Row]:
        """The rows that have these values, by key."""
        return await self._ledger.rows_of(self._tables[table], where)

    async def put(self, table: str, *rows: Row) -> None:
        """Write rows, one value for each column; one with the same key gives way."""
        await self._commit(PutRows(self._tables[table], rows))

    async def drop(self, table: str, *keys: Row) -> None:
        await self._commit(DropRows(self._tables[table], keys))

    def with_result(self, data: Json, table: str, *rows: Row) -> WithRows:
        """Make a result with rows that are written together with it: both are kept, or neither is."""
        return WithRows(data, (PutRows(self._tables[table], rows),))

    async def _commit(self, change: PutRows | DropRows) -> None:
        why = why_refused(change, self._tables)
        if why:
            raise ValueError(why)
        committed = await self._ledger.commit(Work(GATE_PROJECT, changes=(change,)))
        assert isinstance(committed, Applied), committed


async def open_tables(services: Iterable[ToolProvider], ledger: Ledger, *, may_make: bool = True) -> None:
    """Bring the tables of each service that has some up to date, and give it its way to them."""
    makers: dict[str, str] = {}
    for service in services:
        tables = getattr(service, "tables", None)
        if not isinstance(tables, ServiceTables):
            continue
        _refuse_others(tables, service, makers)
        if may_make:
            await _make(ledger, tables)
        service.use_tables(ServiceRows(ledger, tables))  # type: ignore[attr-defined]  # whoever has tables has it


async def _make(ledger: Ledger, tables: ServiceTables) -> None:
    taken = await ledger.steps_taken(tables.service)
    if taken > len(tables.steps):
        raise ConfigError(
            f"the tables of service `{tables.service}` were made by a newer version of it"
            f" ({taken} steps, this one knows {len(tables.steps)})",
            suggestion="upgrade the package that offers it",
        )
    if taken < len(tables.steps):
        committed = await ledger.commit(Work(GATE_PROJECT, changes=(MakeTables(tables),)))
        assert isinstance(committed, Applied), committed


def _refuse_others(tables: ServiceTables, service: ToolProvider, makers: dict[str, str]) -> None:
    name = getattr(service, "name", "")
    if tables.service != name:
        raise ConfigError(
            f"the service `{name}` brings tables of `{tables.service}`", suggestion=f"write ServiceTables({name!r}, …)"
        )
    for table in tables.tables:
        if makers.setdefault(table, name) != name:
            raise ConfigError(
                f"the services `{makers[table]}` and `{name}` both bring a table `{table}`",
                suggestion="uninstall one of them",
            )


def refuse_rows_of_others(result: Json, service: ToolProvider) -> None:
    """ToolError where a result would write rows that its service cannot: the call has failed, whatever was done."""
    if not isinstance(result, WithRows):
        return
    tables = getattr(service, "tables", None)
    own = tables.tables if isinstance(tables, ServiceTables) else {}
    for change in result.rows:
        why = why_refused(change, own)
        if why:
            raise ToolError(f"the rows that were to be kept with the result cannot be written: {why}")
