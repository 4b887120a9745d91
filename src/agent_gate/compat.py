"""Names of the founding documents, for programs that were written against them: records, and thin ways to our own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from agent_gate.model.approval import BareRequest
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry, Kind
from agent_gate.model.errors import ExecutionError, ToolError
from agent_gate.model.moment import epoch
from agent_gate.model.record import output_blob
from agent_gate.model.tool import Json
from agent_gate.model.work import HoldBare, Unhold, Work
from agent_gate.ports.ledger import Append, BareRequests
from agent_gate.ports.reading import EntryFilter, Reader
from agent_gate.ports.services import ServiceHandler
from agent_gate.tools.catalogue import CONFIGURED

if TYPE_CHECKING:
    import asyncio

TOOL_SERVICE_MAP = CONFIGURED
"""Tools that belong to a service which may not be configured here."""


@dataclass
class ToolRequest:
    """The core-engine document's request record."""

    id: str
    tool_name: str
    args: dict[str, Any] = field(default_factory=dict)
    signature: str = ""


@dataclass
class ToolResult:
    """The core-engine document's result record."""

    request_id: str
    status: str
    data: Any = None


@dataclass
class PendingApproval:
    """The core-engine document's runtime record of a waiting question."""

    request: ToolRequest
    future: asyncio.Future[Any]
    message_id: int | None = None
    timeout_task: asyncio.Task[None] | None = None
    created_at: float = field(default_factory=time.time)
    expires_at: float = 0.0


@dataclass
class AuditEntry:
    """The core-engine document's audit record; moments are epoch seconds."""

    request_id: str
    timestamp: float
    tool_name: str
    args: dict[str, Any]
    signature: str
    decision: str
    resolution: str | None = None
    resolved_by: str | None = None
    resolved_at: float | None = None
    execution_result: Any = None
    agent_id: str = "default"


class Executor:
    """Routes a tool to the service that provides it, or that is known to."""

    def __init__(self, services: Mapping[str, ServiceHandler]) -> None:
        self._services = services

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        service = self._services.get(TOOL_SERVICE_MAP.get(tool_name, "")) or self._provider(tool_name)
        if service is None:
            raise missing(tool_name)
        return await service.execute(tool_name, args)

    def _provider(self, tool_name: str) -> ServiceHandler | None:
        for service in self._services.values():
            tools = getattr(service, "tools", tuple)
            if any(getattr(tool, "name", "") == tool_name for tool in tools()):
                return service
        return None


def missing(name: str) -> ExecutionError:
    """The error for a name that leads to no tool: nobody knows it, or its service is not configured."""
    service = TOOL_SERVICE_MAP.get(name)
    if service is not None:
        return ExecutionError(f"Service not configured: {service}", code=2006)
    return ExecutionError(f"Unknown tool: {name}", code=2001)


class Database(Protocol):
    """The core-engine document's database, as far as it lives on in the ledger of a gate."""

    async def insert_pending(
        self, request_id: str, tool_name: str, args: Mapping[str, Json], signature: str, expires_at: float
    ) -> None: ...

    async def get_pending(self, request_id: str) -> dict[str, Any] | None: ...

    async def delete_pending(self, request_id: str) -> None: ...

    async def cleanup_stale_requests(self) -> list[dict[str, Any]]: ...


class _Ledger(Append, BareRequests, Protocol):
    """As much of a ledger as the four methods stand on."""


class DocumentDatabase:
    """Gives a ledger the methods of `Database`: programs call them on the ledger of their gate."""

    async def insert_pending(
        self: _Ledger,
        request_id: str,
        tool_name: str,
        args: Mapping[str, Json],
        signature: str,
        expires_at: float,
    ) -> None:
        row = HoldBare(request_id, tool_name, orjson.dumps(args), signature, self.clock.now(), expires_at)
        await self.commit(Work("default", changes=(row,)))

    async def get_pending(self: _Ledger, request_id: str) -> dict[str, Any] | None:
        found = await self.bare_request(request_id)
        return _shown(found) if found else None

    async def delete_pending(self: _Ledger, request_id: str) -> None:
        found = await self.bare_request(request_id)
        if found:
            await self.commit(Work("default", changes=(Unhold(found.call_id),)))

    async def cleanup_stale_requests(self: _Ledger) -> list[dict[str, Any]]:
        """Delete the bare requests whose deadline has passed and return them, so that whoever asked can say so.

        Questions about calls are not among them: their end is an entry.
        """
        stale = await self.bare_requests_until(self.clock.now())
        for found in stale:
            await self.commit(Work("default", changes=(Unhold(found.call_id),)))
        return [_shown(found) for found in stale]


def _shown(found: BareRequest) -> dict[str, Any]:
    fields = asdict(found)
    del fields["call_id"]
    return fields


def get_audit_log(reader: Reader, limit: int = 100) -> list[AuditEntry]:
    """The core-engine document's records of settled calls, newest first; of an erased one only the header is left."""
    if limit < 1:
        raise ToolError(f"a limit of {limit} shows nothing", code=2002, suggestion="use 1 or more")
    settled = EntryFilter(kinds=(Kind.SETTLED,))
    with reader.one_moment():
        found = list(reader.entries(settled, newest_first=True, limit=limit))
        return [_audit_entry(reader, entry) for entry in found]


def _audit_entry(reader: Reader, entry: Entry) -> AuditEntry:
    fields = _fields(entry.body)
    if entry.body is not None and ("args" not in fields or fields.get("decision") == "ask"):
        told = _told_before(reader, entry)
        if fields.get("decision") != "ask":
            told = {key: value for key, value in told.items() if key == "args"}
        fields = told | {key: value for key, value in fields.items() if value is not None or key == "data"}
    resolved_at = fields.get("resolved_at")
    return AuditEntry(
        request_id=entry.request_id or entry.call_id or "",
        timestamp=epoch(entry.at),
        tool_name=entry.tool or "",
        args=fields.get("args", {}),
        signature=entry.signature or "",
        decision=fields.get("decision") or "",
        resolution=fields.get("resolution"),
        resolved_by=fields.get("resolved_by"),
        resolved_at=epoch(resolved_at) if resolved_at else None,
        execution_result=_execution_result(reader, entry, fields),
        agent_id=entry.agent_id or "default",
    )


def _told_before(reader: Reader, settled: Entry) -> dict[str, Any]:
    """The arguments, which a call's first entry tells, and the last answer, which its end may not repeat."""
    told: dict[str, Any] = {}
    for entry in reader.entries(EntryFilter(call_id=settled.call_id, with_body=True)):
        fields = _fields(entry.body)
        if entry.hash == settled.hash:
            break
        if "args" in fields:
            told.setdefault("args", fields["args"])
        if fields.get("resolution"):
            told |= {key: fields.get(key) or None for key in ("resolution", "resolved_by", "resolved_at")}
    return told


def _execution_result(reader: Reader, entry: Entry, fields: Mapping[str, Any]) -> Any:
    output = {"data": fields["data"]} if "data" in fields else {}
    if not output and "output_hash" in fields:
        stored = reader.blob(output_blob(entry.call_id or ""))
        output = {} if stored is None else {"data": restore(stored)}
    if entry.status == "success" or entry.body is None:
        return output.get("data")
    return {"status": entry.status, "error": fields.get("error"), **output}


def _fields(body: bytes | None) -> dict[str, Any]:
    """Those of a body; one that is no JSON is for `verify` to judge, and has nothing to show here."""
    try:
        fields = restore(body) if body is not None else {}
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
