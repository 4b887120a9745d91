"""Ends of acts whose process is gone: in doubt, or, where their writes were kept apart, known after all."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agent_gate.model.codec import sha256_hex
from agent_gate.model.ending import WRITES_STAY
from agent_gate.model.errors import Problem
from agent_gate.model.record import undo_blob
from agent_gate.ports.tools import FinishCommit

_IN_DOUBT = Problem(
    2007, "the process ended before it could say how the act went", "look at the target itself", "perform"
)
_NOTHING_WRITTEN = Problem(
    2003,
    "the process ended before what the command wrote was committed; nothing was written",
    "run it again",
    "perform",
)
_NOT_ANSWERED = Problem(
    1016, "the process that kept what the command wrote is gone; nothing was written", "make the call again", "hold"
)
_ASKED_ABOUT_WRITES = (
    "SELECT 1 FROM entries held JOIN entries act ON act.call_id = held.call_id AND act.kind = 'performing'"
    " AND act.seq < held.seq WHERE held.call_id = ? AND held.kind = 'held'"
)
_LAYERED = frozenset({"judge", "ask", "none"})


@dataclass(frozen=True, slots=True)
class Ended:
    status: str
    fields: Mapping[str, Any]


def how_it_ended(
    connection: sqlite3.Connection, call_id: str, writes: str | None, finish: FinishCommit | None
) -> Ended | None:
    """None where that is not to be found out here: by a process that has nothing to do with files."""
    if writes not in _LAYERED:
        return Ended("unknown", {"error": _IN_DOUBT.to_json()})
    committing = connection.execute(
        "SELECT body FROM entries WHERE call_id = ? AND kind = 'committing'", (call_id,)
    ).fetchone()
    if finish is None:
        return None
    if committing is None:
        finish(call_id, None)
        is_held = connection.execute(_ASKED_ABOUT_WRITES, (call_id,)).fetchone()
        problem = _NOT_ANSWERED if is_held else _NOTHING_WRITTEN
        return Ended("expired" if is_held else "error", {"error": problem.to_json()})
    journal = connection.execute("SELECT data FROM blobs WHERE hash = ?", (undo_blob(call_id),)).fetchone()
    told = orjson.loads(committing[0]) if committing[0] else {}
    if journal is None or told.get("kept_hash") != sha256_hex(journal[0]):
        return Ended("unknown", {"error": _IN_DOUBT.to_json()})
    return _finished(finish, call_id, journal[0], told)


def _finished(finish: FinishCommit, call_id: str, journal: bytes, told: Mapping[str, Any]) -> Ended:
    ended = finish(call_id, journal)
    kept = {name: told[name] for name in ("data", "files") if name in told}
    if ended.in_doubt:
        paths = ", ".join(f"`{path}`" for path in ended.in_doubt[:10])
        detail = f"the process ended in the middle of the commit, and another program has changed {paths} since"
        problem = Problem(2007, detail, "look at these files", "perform")
        return Ended("unknown", {**kept, "error": problem.to_json()})
    if not ended.made:
        return Ended("error", {**kept, "error": _NOTHING_WRITTEN.to_json()})
    message = "committed after a restart"
    if "failure" in told:
        return Ended("error", {**kept, "error": told["failure"], "message": f"{WRITES_STAY}, {message}"})
    return Ended("success", {**kept, "message": message})
