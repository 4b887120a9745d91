"""Rows of the view `runs` as they are shown: with why a run was refused, and what a replay replays."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from agent_gate.model.codec import restore
from agent_gate.model.entry import Kind
from agent_gate.ports.reading import EntryFilter, Reader, RunRow

COUNTERS = ("completed_steps", "denied_steps", "failed_steps")


def shown(reader: Reader, row: RunRow) -> dict[str, Any]:
    """The row, of a replay with its `original_run_id`, and with the `error` that ended or refused a run as a whole."""
    run = asdict(row)
    if row.status != "failed" and row.mode != "replay":
        return run
    for entry in reader.entries(EntryFilter(run_id=row.run_id, kinds=(Kind.RUN,), with_body=True)):
        fields = restore(entry.body or b"{}")
        run |= {key: fields[key] for key in ("original_run_id", "error") if fields.get(key)}
    return run
