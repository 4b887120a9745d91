"""A project's state over time: what it was at any version, who changed it, and what changed between two versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import astuple

from agent_gate.model.codec import restore
from agent_gate.model.differences import difference
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.project import INITIAL_SNAPSHOT
from agent_gate.model.tool import Json
from agent_gate.ports.reading import ChangeRow, HeadRow, Reader

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


def show(reader: Reader, project: str, version: int | None = None, snapshot_id: str | None = None) -> StateVersion:
    """The state now, or at a version, or of a snapshot."""
    with reader.one_moment():
        head = _head(reader, project)
        if snapshot_id is not None and snapshot_id != INITIAL_SNAPSHOT:
            return _snapshot(reader, project, snapshot_id, f"no snapshot `{snapshot_id}`")
        if snapshot_id is not None:
            version = 0
        wanted = head.state_version if version is None else version
        if wanted == 0:
            document = restore(head.initial_state.encode()) if head.initial_state else {}
            return StateVersion(project, 0, document, INITIAL_SNAPSHOT, head.created_at)
        return _snapshot(reader, project, wanted, f"no state of version {wanted}")


def history(reader: Reader, project: str, limit: int = LIMIT) -> list[Change]:
    """The versions of a project's state, newest first; the last of them is the initial state."""
    if limit < 1:
        raise ToolError(f"a limit of {limit} shows nothing", code=2002, suggestion="use 1 or more")
    with reader.one_moment():
        head = _head(reader, project)
        initial = ChangeRow(0, INITIAL_SNAPSHOT, head.created_at, None, None, None, None)
        return [Change(*astuple(row)) for row in (*reader.changes(project, limit), initial)][:limit]


def diff(reader: Reader, project: str, a: int | str, b: int | str) -> list[dict[str, Json]]:
    """RFC 6902: what turns state `a` into state `b`; each is a version or the id of a snapshot."""
    with reader.one_moment():
        before, after = (_named(reader, project, place).document for place in (a, b))
    return difference(before, after)


def _named(reader: Reader, project: str, place: int | str) -> StateVersion:
    return show(reader, project, place) if isinstance(place, int) else show(reader, project, snapshot_id=place)


def _head(reader: Reader, project: str) -> HeadRow:
    head = reader.head(project)
    if head is None:
        raise unknown_project(project)
    return head


def unknown_project(project: str) -> GateError:
    return GateError.of(Problem(1017, f"project `{project}` does not exist", "see `agent-gate project list`"))


def _snapshot(reader: Reader, project: str, place: int | str, missing: str) -> StateVersion:
    row = reader.snapshot(project, place)
    if row is None:
        raise ToolError(f"project `{project}` has {missing}", code=2002, suggestion="see `agent-gate state history`")
    try:
        document = restore(row.document)  # type: ignore[arg-type]  # a missing one is told like a broken one
    except (TypeError, ValueError):
        raise StorageError(
            f"the document of snapshot `{row.snapshot_id}` cannot be read",
            code=5004,
            suggestion="run `agent-gate verify`",
        ) from None
    return StateVersion(project, row.version, document, row.snapshot_id, row.at, row.call_id)
