"""States of projects: every version, what changed between two of them, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit
from agent_gate.doors.console.shown import Step, steps
from agent_gate.doors.console.undo import submit_for, tell_outcome
from agent_gate.history import projects, state
from agent_gate.history.state import Change, StateVersion
from agent_gate.model.bounds import CONSOLE_ROWS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.ports.reading import Reader


@dataclass(frozen=True, slots=True)
class View:
    current: StateVersion
    shown: StateVersion
    changes: list[Change]
    before: int
    after: int
    steps: list[Step]


async def show_all(visit: Visit) -> Response:
    return await visit.page("projects.html", projects=await visit.console.read(projects.list_projects))


async def show(visit: Visit) -> Response:
    project = visit.request.path_params["project"]
    view = await visit.console.read(_view, project, visit.asked("from"), visit.asked("to"))
    return await visit.page("state.html", view=view, project=project, versions_max=CONSOLE_ROWS_MAX)


async def revert(visit: Visit) -> Response:
    """Makes a snapshot the state again: a call like any other."""
    project = visit.request.path_params["project"]
    outcome = await submit_for(visit, "state.revert", {"snapshot_id": visit.form.get("snapshot_id", "")[:200]}, project)
    tell_outcome(visit, outcome, "Reverted")
    return visit.go("state", project)


def _view(reader: Reader, project: str, wanted_from: str, wanted_to: str) -> View:
    with reader.one_moment():
        current = state.show(reader, project)
        after = _version(wanted_to, current.version)
        before = _version(wanted_from, max(0, after - 1))
        shown = current if after == current.version else state.show(reader, project, after)
        start = state.show(reader, project, before)
        operations = state.diff(reader, project, before, after)
        changes = state.history(reader, project, CONSOLE_ROWS_MAX)
    return View(current, shown, changes, before, after, steps(operations, start.document))


def _version(text: str, default: int) -> int:
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ToolError(f"`{text[:40]}` is no version", code=2002, suggestion="use a number of the list")
    return int(text)
