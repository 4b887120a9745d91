"""Questions about the past: what was done, what waits for an answer, what became of a call, which runs there were."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from agent_gate.history import run_rows
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry, Kind
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.outcome import Status
from agent_gate.ports.reading import EntryFilter, Reader, RunRow

OUTCOMES = tuple(status.value for status in Status if status is not Status.PENDING_APPROVAL)
LIMIT = 100

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhdw])")
_LAST_MOMENT = epoch("9999-12-31T23:59:59Z")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The end of one call, on one line."""

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
    reader: Reader,
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
    wanted = EntryFilter(
        project=project,
        kinds=(Kind.SETTLED, Kind.JUDGED),
        status=status,
        tool=tool,
        agent=agent,
        since=None if since is None else iso(moment_since(since, now)),
        text=text,
        before=before,
    )
    lines: list[AuditLine] = []
    for entry in reader.entries(wanted, newest_first=True, limit=_positive(limit)):
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


def pending(reader: Reader, now: float) -> list[dict[str, Any]]:
    """The questions that wait for an answer, oldest first."""
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
        for question in (one.question for one in reader.open_questions(now))
    ]


def call(reader: Reader, call_id: str) -> list[Entry]:
    """Everything that was written down about one call, in order."""
    entries = list(reader.entries(EntryFilter(call_id=call_id)))
    if not entries:
        raise unknown_call(call_id)
    return entries


def unknown_call(call_id: str) -> ToolError:
    return ToolError(f"there is no call `{call_id}`", code=2002, suggestion="see `agent-gate audit`")


RUN_COLUMNS = RunRow.__struct_fields__


def runs(
    reader: Reader, limit: int = LIMIT, agent: str | None = None, columns: Sequence[str] = RUN_COLUMNS
) -> list[dict[str, Any]]:
    """The rows of the view `runs`, newest first, with why a run was refused: all, or those that one agent began."""
    with_documents = not {"plan_json", "policy_json"}.isdisjoint(columns)
    rows = list(reader.runs(agent=agent, limit=_positive(limit), with_documents=with_documents))
    return [_picked(run_rows.shown(reader, row), columns) for row in rows]


def _picked(run: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """The columns that are wanted, and what is told beside them."""
    return {name: value for name, value in run.items() if name in columns or name not in RUN_COLUMNS}


def agent_of_run(reader: Reader, run_id: str) -> str | None:
    """Find who began it; None where there is no such run."""
    first = next(reader.entries(EntryFilter(run_id=run_id, kinds=(Kind.RUN,)), limit=1), None)
    return None if first is None else str(first.agent_id)
