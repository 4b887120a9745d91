"""Questions about the past: what was done, what waits for an answer, what became of a call, which runs there were."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from agent_gate.compat import AuditEntry
from agent_gate.history import run_rows
from agent_gate.ledger.sqlite.reader import row_of, rows_of
from agent_gate.ledger.sqlite.rows import ENTRY_COLUMNS, entry_of, question_of
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.outcome import Status

OUTCOMES = tuple(status.value for status in Status if status is not Status.PENDING_APPROVAL)
LIMIT = 100

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhdw])")
_LAST_MOMENT = epoch("9999-12-31T23:59:59Z")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class AuditLine:
    """How one call ended, on one line."""

    at: str
    project: str
    seq: int
    call_id: str
    request_id: str
    run_id: str | None
    agent_id: str | None
    tool: str | None
    signatures: tuple[str, ...]
    status: str | None
    decision: str | None
    resolution: str | None
    resolved_by: str | None
    error: Mapping[str, Any] | None
    erased: bool

    def to_json(self) -> dict[str, Any]:
        fields = {key: value for key, value in asdict(self).items() if value is not None}
        fields["signatures"] = list(self.signatures)
        if not self.erased:
            del fields["erased"]
        return fields


def audit(
    reader: sqlite3.Connection,
    *,
    now: float,
    limit: int = LIMIT,
    tool: str | None = None,
    agent: str | None = None,
    status: str | None = None,
    since: str | None = None,
    project: str | None = None,
    text: str | None = None,
    before: tuple[str, int] | None = None,
    bytes_max: float = inf,
) -> list[AuditLine]:
    """The last calls, newest first; `tool` and `agent` may be glob patterns, `since` a moment or a duration.

    `text` is looked for in what an entry says, whatever its case; `before` is the place (project, number) of an entry
    after which a list goes on. It ends before `bytes_max` are read, but gives one entry, however large.
    """
    if status is not None and status not in OUTCOMES:
        raise ToolError(f"`{status}` is no status", code=2002, suggestion=f"one of {', '.join(OUTCOMES)}")
    wanted = "kind IN ('settled', 'judged')"
    values: list[object] = []
    for column, pattern in (("tool", tool), ("agent_id", agent), ("status", status), ("project", project)):
        if pattern is not None:
            glob = column in ("tool", "agent_id") and any(character in pattern for character in "*?[")
            # The plus: by the index of tools SQLite would have to sort all calls of a tool to give the last few.
            wanted += f" AND +{column} {'GLOB' if glob else '='} ?"
            # SQLite negates a set by `^`, shells and our rules by `!`.
            values.append(pattern.replace("[!", "[^") if glob else pattern)
    if since is not None:
        wanted += " AND at >= ?"
        values.append(iso(moment_since(since, now)))
    if text is not None:
        wanted += " AND instr(lower(coalesce(signature, '') || char(10) || coalesce(body, '')), lower(?))"
        values.append(text)
    if before is not None:
        wanted += " AND id < (SELECT id FROM entries WHERE project = ? AND seq = ?)"
        values.extend(before)
    rows = rows_of(
        reader,
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE {wanted} ORDER BY id DESC LIMIT ?",  # noqa: S608
        *values,
        _positive(limit),
    )
    lines: list[AuditLine] = []
    for entry in map(entry_of, rows):
        bytes_max -= len(entry.signature or "") + len(entry.body or b"")
        if lines and bytes_max < 0:
            break
        lines.append(_line(entry))
    return lines


def moment_since(text: str, now: float) -> float:
    """`2h`, `7d` or `90s` before now, or the ISO 8601 moment that the text names; within what can be written as one."""
    duration = _DURATION.fullmatch(text.strip())
    try:
        moment = now - float(duration[1]) * _UNIT_S[duration[2]] if duration else epoch(text.strip())
        return min(max(moment, 0.0), _LAST_MOMENT)
    except (ValueError, OverflowError):
        raise ToolError(
            f"`{text}` is no moment and no duration", code=2002, suggestion="write 2h, 7d or 2026-11-15T08:00:00Z"
        ) from None


def _positive(limit: int) -> int:
    if limit < 1:
        raise ToolError(f"a limit of {limit} shows nothing", code=2002, suggestion="use 1 or more")
    return min(limit, 2**62)


def _line(entry: Entry) -> AuditLine:
    fields = _fields(entry.body)
    return AuditLine(
        entry.at,
        entry.project,
        entry.seq,
        entry.call_id or "",
        entry.request_id or entry.call_id or "",
        entry.run_id,
        entry.agent_id,
        entry.tool,
        tuple(entry.signature.split("\n")) if entry.signature else (),
        entry.status,
        fields.get("decision"),
        fields.get("resolution"),
        fields.get("resolved_by"),
        fields.get("error"),
        entry.body is None,
    )


def _fields(body: bytes | None) -> dict[str, Any]:
    """A body that is no JSON is for `verify` to judge; here it has nothing to show."""
    try:
        fields = restore(body) if body is not None else {}
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def get_audit_log(reader: sqlite3.Connection, limit: int = LIMIT) -> list[AuditEntry]:
    """The core-engine document's records of settled calls, newest first; of an erased one only the header is left."""
    rows = rows_of(
        reader,
        "SELECT request_id, timestamp, tool_name, args, signature, decision, resolution, resolved_by, resolved_at,"
        " execution_result, agent_id FROM audit_log ORDER BY id DESC LIMIT ?",
        _positive(limit),
    )
    return [_audit_entry(*row) for row in rows]


def _audit_entry(*row: Any) -> AuditEntry:
    request_id, at, tool, args, signature, decision, resolution, by, resolved_at, result, agent = row
    return AuditEntry(
        request_id=request_id,
        timestamp=epoch(at),
        tool_name=tool or "",
        args=restore(args.encode()) if args else {},
        signature=signature or "",
        decision=decision or "",
        resolution=resolution,
        resolved_by=by,
        resolved_at=epoch(resolved_at) if resolved_at else None,
        execution_result=restore(result.encode()) if result is not None else None,
        agent_id=agent or "default",
    )


def pending(reader: sqlite3.Connection, now: float) -> list[dict[str, Any]]:
    """The questions that wait for an answer, oldest first."""
    rows = rows_of(
        reader,
        "SELECT question FROM pending_requests WHERE question IS NOT NULL AND resolution IS NULL AND expires_at > ?"
        " ORDER BY created_at, call_id",
        iso(now),
    )
    return [
        {
            "call_id": question.call_id,
            "request_id": question.request_id,
            "project": question.project,
            "agent_id": question.agent_id,
            "tool": question.tool,
            "args": question.args,
            "signatures": list(question.signatures),
            "reasons": list(question.reasons),
            "expires_at": iso(question.expires_at),
        }
        for question in (question_of(row[0]) for row in rows)
    ]


def call(reader: sqlite3.Connection, call_id: str) -> list[Entry]:
    """Everything that was written down about one call, in order."""
    entries = [
        entry_of(row)
        for row in rows_of(
            reader,
            f"SELECT {ENTRY_COLUMNS} FROM entries WHERE call_id = ? ORDER BY id",  # noqa: S608
            call_id,
        )
    ]
    if not entries:
        raise unknown_call(call_id)
    return entries


def unknown_call(call_id: str) -> ToolError:
    return ToolError(f"there is no call `{call_id}`", code=2002, suggestion="see `agent-gate audit`")


RUN_COLUMNS = (
    "run_id", "created_at", "completed_at", "plan_hash", "policy_hash", "plan_json", "policy_json", "mode", "status",
    "total_steps", "completed_steps", "denied_steps", "failed_steps",
)  # fmt: skip


def runs(
    reader: sqlite3.Connection, limit: int = LIMIT, agent: str | None = None, columns: Sequence[str] = RUN_COLUMNS
) -> list[dict[str, Any]]:
    """The rows of the view `runs`, newest first, with why a run was refused: all, or those that one agent began."""
    began = "SELECT run_id FROM entries WHERE kind = 'run' AND status = 'running' AND agent_id = ?"
    wanted, values = ("", ()) if agent is None else (f"WHERE run_id IN ({began})", (agent,))
    rows = rows_of(
        reader,
        f"SELECT {', '.join(columns)} FROM runs {wanted} ORDER BY created_at DESC, run_id DESC LIMIT ?",  # noqa: S608
        *values,
        _positive(limit),
    )
    return [run_rows.shown(reader, dict(zip(columns, row, strict=True))) for row in list(rows)]


def agent_of_run(reader: sqlite3.Connection, run_id: str) -> str | None:
    """Who began it; None where there is no such run."""
    row = row_of(reader, "SELECT agent_id FROM entries WHERE run_id = ? AND kind = 'run' ORDER BY id LIMIT 1", run_id)
    return None if row is None else str(row[0])
