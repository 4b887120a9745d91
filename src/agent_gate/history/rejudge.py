"""Judging recorded calls again: the bound call and its facts as they were, under whatever policy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_gate.history.state import show
from agent_gate.ledger.reader import row_of, rows_of
from agent_gate.model.builtin import BUILTIN
from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.codec import restore
from agent_gate.model.moment import epoch, iso
from agent_gate.model.tool import ToolDeclaration
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.declared import unregistered
from agent_gate.policy.judge import Judge

FIRST_ENTRIES = (
    "SELECT e.project, e.seq, e.at, e.run_id, e.call_id, e.agent_id, e.tool, e.body FROM entries e"
    " WHERE e.kind IN ('held', 'performing', 'settled') AND e.body IS NOT NULL"
    " AND e.body LIKE '%\"facts\":%'"
)
"""Only the first entry of a bound call holds facts; erased calls and those that were never bound have none."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call as its first entry tells it."""

    project: str
    seq: int
    at: str
    call_id: str
    bound: BoundCall
    facts: Facts
    decision: Decision
    rules: tuple[str, ...]
    """The rules that spoke when it was decided."""


class Rejudge:
    """Reads recorded calls and judges them; what tools said of themselves comes from the record too."""

    def __init__(self, reader: sqlite3.Connection) -> None:
        self._reader = reader
        self._tools = RecordedTools(reader)

    def calls(self, since: float | None = None, run_id: str | None = None) -> Iterator[RecordedCall]:
        sql, values = FIRST_ENTRIES, []
        if since is not None:
            sql, values = f"{sql} AND e.at >= ?", [iso(since)]
        if run_id is not None:
            sql, values = f"{sql} AND e.run_id = ?", [*values, run_id]
        for row in rows_of(self._reader, f"{sql} ORDER BY e.id", *values):
            call = _recorded(row)
            if call is not None:
                yield call

    def verdict(self, call: RecordedCall, judge: Judge, *, as_it_was: bool) -> Verdict:
        """`as_it_was` False: what the rules say, whoever could be asked or had just said no at the time."""
        tool = self._tools.find(call.bound.request.tool, call.at)
        facts = call.facts if as_it_was else replace(call.facts, can_ask=True, refused_recently=False)
        if judge.needs_state(tool):
            facts = replace(facts, state=show(self._reader, call.project, facts.state_version).document)
        return judge.decide(call.bound, facts, tool)


class RecordedTools:
    """The declarations that gates recorded when they opened, newest first."""

    def __init__(self, reader: sqlite3.Connection) -> None:
        rows = rows_of(
            reader,
            "SELECT e.at, b.data FROM entries e JOIN blobs b ON b.hash = e.body ->> '$.tools_hash'"
            " WHERE e.kind = 'tools' ORDER BY e.id DESC",
        )
        self._sets = [
            (at, {name: ToolDeclaration.from_json(name, fields) for name, fields in restore(bytes(data)).items()})
            for at, data in rows
        ]
        self._unregistered: dict[str, ToolDeclaration] = {}

    def find(self, name: str, at: str) -> ToolDeclaration:
        """What the tool said of itself at that moment; failing that, ever; failing that, what must be assumed."""
        builtin = BUILTIN.get(name)
        if builtin is not None:
            return builtin
        for recorded_at, tools in self._sets:
            if recorded_at <= at and name in tools:
                return tools[name]
        for _, tools in self._sets:
            if name in tools:
                return tools[name]
        return self._unregistered.setdefault(name, unregistered(name))


def policy_source(reader: sqlite3.Connection, policy_hash: str) -> dict[str, Any] | None:
    """A policy by its hash, or by the beginning of it that facts hold."""
    row = row_of(reader, "SELECT data FROM blobs WHERE hash >= ? AND hash < ?", policy_hash, policy_hash + "~")
    return restore(bytes(row[0])) if row else None


def _recorded(row: tuple[Any, ...]) -> RecordedCall | None:
    project, seq, at, run_id, call_id, agent_id, tool, text = row
    body: Mapping[str, Any] = restore(text.encode())
    recorded = body.get("facts")
    if recorded is None or "args" not in body:
        return None
    started_at = body.get("started_at", at)
    facts = Facts.from_json(recorded, epoch(started_at))
    args = body["args"]
    request = CallRequest(
        Agent(agent_id, facts.roles), tool, args, project, confirmed=facts.confirmed, run_id=run_id,
        step_index=body.get("step_index"),
    )  # fmt: skip
    bound = BoundCall(
        call_id, request, args, args, tuple(body["signatures"]), body.get("bound_hash", ""), body["input_hash"],
        body.get("resources", {}),
    )  # fmt: skip
    rules = tuple(reason["rule"] for reason in body.get("reasons", ()) if reason.get("rule"))
    return RecordedCall(project, seq, at, call_id, bound, facts, Decision(body["decision"]), rules)
