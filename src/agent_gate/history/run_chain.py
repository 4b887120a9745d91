"""Completeness of what a run wrote: its part of the chain, and the steps that its end counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from agent_gate.history.erasures import Erasures
from agent_gate.history.findings import ODD_VALUES, Finding, Findings
from agent_gate.history.run_rows import COUNTERS
from agent_gate.history.verify_chain import End, Walk
from agent_gate.history.verify_contents import Contents
from agent_gate.model.codec import restore
from agent_gate.model.entry import Kind
from agent_gate.ports.examining import EntryPlace
from agent_gate.ports.reading import EntryFilter, Reader


def chain_findings(reader: Reader, run_id: str, project: str) -> list[Finding]:
    """Find what is missing, out of place or changed between the run's beginning and its end."""
    findings = Findings()
    begin, end = reader.tables.run_places(run_id)
    has_ended = end.id != begin.id
    with closing(Erasures(reader.tables)) as erasures:
        # Contents are compared by the replay itself; here it is enough that they are there.
        contents = Contents(reader.tables, findings, hash_now=False)
        walk = Walk(reader.tables, findings, erasures, contents, run_id)
        walk.ends[project] = reached = End(begin.seq - 1, begin.prev_hash)
        walk.run_between(project, begin.id, end.id if has_ended else None)
    wanted = (end.seq, end.hash) if has_ended else _head(reader, project)
    if (reached.seq, reached.hash) != wanted:
        findings.add(project, None, f"the chain should reach entry {wanted[0]}, and ends at entry {reached.seq}")
    for what in _miscounted(reader, run_id, end) if has_ended else _left_off(reader, run_id):
        findings.add(project, end.seq if has_ended else None, what)
    return findings.kept


def _head(reader: Reader, project: str) -> tuple[int, bytes]:
    head = reader.head(project)
    return (head.seq, head.hash) if head else (0, b"")


def _miscounted(reader: Reader, run_id: str, end: EntryPlace) -> Iterator[str]:
    """There may be more than are counted: a call that a crash left open is settled after the end of its run."""
    try:
        fields: dict[str, Any] = restore(end.body.encode())
        counted = sum(fields[name] for name in COUNTERS) - fields.get("unrecorded_steps", 0)
    except ODD_VALUES:  # not what was hashed, which the walk has told
        return
    settled = reader.count_entries(EntryFilter(run_id=run_id, kinds=(Kind.SETTLED,)))
    if settled < counted:
        yield f"the end of the run counts {counted} steps, and {settled} are recorded"


def _left_off(reader: Reader, run_id: str) -> Iterator[str]:
    if not reader.is_open(run_id):
        yield "the run has no end, though nothing is at work on it"
