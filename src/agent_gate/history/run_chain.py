"""Whether all that a run wrote is still there: its part of the chain, and the steps that its end counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from agent_gate.history.erasures import Erasures
from agent_gate.history.findings import ODD_VALUES, Finding, Findings
from agent_gate.history.run_rows import COUNTERS
from agent_gate.history.verify_chain import End, Walk
from agent_gate.history.verify_contents import Contents
from agent_gate.ledger.sqlite.reader import row_of
from agent_gate.model.codec import restore


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an entry stands: in the table, and in its chain."""

    id: int
    seq: int
    hash: bytes
    prev_hash: bytes
    body: Any


def chain_findings(reader: sqlite3.Connection, run_id: str, project: str) -> list[Finding]:
    """What is missing, out of place or changed between the run's beginning and its end."""
    findings = Findings()
    begin, end = _place(reader, run_id, "ASC"), _place(reader, run_id, "DESC")
    has_ended = end.id != begin.id
    with closing(Erasures(reader)) as erasures:
        # Contents are compared by the replay itself; here it is enough that they are there.
        contents = Contents(reader, findings, hash_now=False)
        walk = Walk(reader, findings, erasures, contents, run_id)
        walk.ends[project] = reached = End(begin.seq - 1, begin.prev_hash)
        walk.run_between(project, begin.id, end.id if has_ended else None)
    wanted = (end.seq, end.hash) if has_ended else _head(reader, project)
    if (reached.seq, reached.hash) != wanted:
        findings.add(project, None, f"the chain should reach entry {wanted[0]}, and ends at entry {reached.seq}")
    for what in _miscounted(reader, run_id, end) if has_ended else _left_off(reader, run_id):
        findings.add(project, end.seq if has_ended else None, what)
    return findings.kept


def _place(reader: sqlite3.Connection, run_id: str, order: str) -> _Place:
    """The run's first or last entry of its own; a run that has not ended has one."""
    row = row_of(
        reader,
        "SELECT id, seq, hash, prev_hash, body FROM entries WHERE run_id = ? AND kind = 'run'"  # noqa: S608
        f" ORDER BY id {order} LIMIT 1",
        run_id,
    )
    return _Place(*row)


def _head(reader: sqlite3.Connection, project: str) -> tuple[int, bytes]:
    return tuple(row_of(reader, "SELECT seq, hash FROM heads WHERE project = ?", project) or (0, b""))


def _miscounted(reader: sqlite3.Connection, run_id: str, end: _Place) -> Iterator[str]:
    """There may be more than are counted: a call that a crash left open is settled after the end of its run."""
    try:
        fields: dict[str, Any] = restore(end.body.encode())
        counted = sum(fields[name] for name in COUNTERS) - fields.get("unrecorded_steps", 0)
    except ODD_VALUES:  # not what was hashed, which the walk has told
        return
    [settled] = row_of(reader, "SELECT count(*) FROM entries WHERE run_id = ? AND kind = 'settled'", run_id)
    if settled < counted:
        yield f"the end of the run counts {counted} steps, and {settled} are recorded"


def _left_off(reader: sqlite3.Connection, run_id: str) -> Iterator[str]:
    if row_of(reader, "SELECT 1 FROM open_work WHERE id = ? AND kind = 'run'", run_id) is None:
        yield "the run has no end, though nothing is at work on it"
