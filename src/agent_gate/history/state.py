"""A project's state over time: what it was at any version, who changed it, and what changed between two versions."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from agent_gate.ledger.sqlite.reader import one_moment, row_of, rows_of
from agent_gate.model.codec import restore
from agent_gate.model.differences import difference
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.project import INITIAL_SNAPSHOT
from agent_gate.model.tool import Json

LIMIT = 100


@dataclass(frozen=True, slots=True)
class StateVersion:
    project: str
    version: int
    """0 is the initial state."""
    document: Json
    snapshot_id: str | None = None
    at: str | None = None
    call_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        optional = ("snapshot_id", "at", "call_id")
        return {key: value for key, value in asdict(self).items() if value is not None or key not in optional}


@dataclass(frozen=True, slots=True)
class Change:
    """One version and the call that made it; `operations` counts the diff, None where the call was erased."""

    version: int
    snapshot_id: str
    at: str
    call_id: str | None
    tool: str | None
    agent_id: str | None
    operations: int | None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def show(
    reader: sqlite3.Connection, project: str, version: int | None = None, snapshot_id: str | None = None
) -> StateVersion:
    """The state now, or at a version, or of a snapshot."""
    with one_moment(reader):
        current, initial_state, created_at = _head(reader, project)
        if snapshot_id is not None and snapshot_id != INITIAL_SNAPSHOT:
            return _snapshot(reader, project, "snapshot_id = ?", snapshot_id, f"no snapshot `{snapshot_id}`")
        if snapshot_id is not None:
            version = 0
        wanted = current if version is None else version
        if wanted == 0:
            document = restore(initial_state.encode()) if initial_state else {}
            return StateVersion(project, 0, document, INITIAL_SNAPSHOT, created_at)
        return _snapshot(reader, project, "version = ?", wanted, f"no state of version {wanted}")


def history(reader: sqlite3.Connection, project: str, limit: int = LIMIT) -> list[Change]:
    """The versions of a project's state, newest first; the last of them is the initial state."""
    if limit < 1:
        raise ToolError(f"a limit of {limit} shows nothing", code=2002, suggestion="use 1 or more")
    with one_moment(reader):
        _, _, created_at = _head(reader, project)
        rows = rows_of(
            reader,
            "SELECT s.version, s.snapshot_id, s.at, s.call_id, e.tool, e.agent_id,"
            " json_array_length(e.body, '$.state_diff')"
            " FROM snapshots s LEFT JOIN entries e"
            " ON e.call_id = s.call_id AND e.project = s.project AND e.kind = 'settled'"
            " WHERE s.project = ? ORDER BY s.version DESC LIMIT ?",
            project,
            limit,
        )
        initial = Change(0, INITIAL_SNAPSHOT, created_at, None, None, None, None)
        return [*(Change(*row) for row in rows), initial][:limit]


def diff(reader: sqlite3.Connection, project: str, a: int | str, b: int | str) -> list[dict[str, Json]]:
    """RFC 6902: what turns state `a` into state `b`; each is a version or the id of a snapshot."""
    with one_moment(reader):
        before, after = (_named(reader, project, place).document for place in (a, b))
    return difference(before, after)


def _named(reader: sqlite3.Connection, project: str, place: int | str) -> StateVersion:
    return show(reader, project, place) if isinstance(place, int) else show(reader, project, snapshot_id=place)


def _head(reader: sqlite3.Connection, project: str) -> tuple[int, str | None, str]:
    row = row_of(reader, "SELECT state_version, initial_state, created_at FROM heads WHERE project = ?", project)
    if row is None:
        raise unknown_project(project)
    return row[0], row[1], row[2]


def unknown_project(project: str) -> GateError:
    return GateError.of(Problem(1017, f"project `{project}` does not exist", "see `agent-gate project list`"))


def _snapshot(reader: sqlite3.Connection, project: str, where: str, value: object, missing: str) -> StateVersion:
    row = row_of(
        reader,
        "SELECT s.version, s.snapshot_id, s.at, s.call_id, b.data FROM snapshots s"  # noqa: S608
        f" LEFT JOIN blobs b ON b.hash = s.document WHERE s.project = ? AND s.{where}",
        project,
        value,
    )
    if row is None:
        raise ToolError(f"project `{project}` has {missing}", code=2002, suggestion="see `agent-gate state history`")
    version, snapshot_id, at, call_id, data = row
    try:
        document = restore(data)
    except (TypeError, ValueError):
        raise StorageError(
            f"the document of snapshot `{snapshot_id}` cannot be read", code=5004, suggestion="run `agent-gate verify`"
        ) from None
    return StateVersion(project, version, document, snapshot_id, at, call_id)
