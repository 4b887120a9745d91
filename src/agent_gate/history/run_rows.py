"""Rows of the view `runs` as they are shown: with counters while a run is under way, and why it was refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from agent_gate.ledger.sqlite.reader import row_of
from agent_gate.model.codec import restore

COUNTERS = ("completed_steps", "denied_steps", "failed_steps")

_SETTLED_SO_FAR = (
    "SELECT coalesce(sum(status = 'success'), 0), coalesce(sum(status IN ('denied', 'expired')), 0),"
    " coalesce(sum(status IN ('error', 'unknown')), 0) FROM entries WHERE run_id = ? AND kind = 'settled'"
)
_TOLD = (
    "SELECT max(body ->> '$.original_run_id'), max(body -> '$.error') FROM entries WHERE run_id = ? AND kind = 'run'"
)


def shown(reader: sqlite3.Connection, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, of a replay with its `original_run_id`, and with the `error` that ended or refused the run as a whole.

    The end of a run counts its steps; until then those that are settled are counted here.
    """
    run = dict(row)
    if run["status"] == "running":
        run |= dict(zip(COUNTERS, row_of(reader, _SETTLED_SO_FAR, run["run_id"]), strict=True))
    if run["status"] != "failed" and run["mode"] != "replay":
        return run
    original, error = row_of(reader, _TOLD, run["run_id"])
    if original:
        run["original_run_id"] = original
    if error:
        run["error"] = restore(error.encode())
    return run
