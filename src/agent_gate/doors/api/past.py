"""Operations on the past: runs, entries and states, for an agent its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from agent_gate.doors.api.operation import Asked, NotThere, Operation, Who
from agent_gate.doors.api.reads import state_read
from agent_gate.doors.api.schemas import (
    ID,
    LIMIT,
    LISTED_RUN_COLUMNS,
    OBJECT,
    PROJECT,
    SINCE,
    listed,
    name_of,
    one_of,
    record,
    ref,
)
from agent_gate.doors.http import json_response
from agent_gate.history import query, state
from agent_gate.history.report import build_report, run_of, steps_shown
from agent_gate.model.bounds import INTEGER_MAX
from agent_gate.model.call import Agent
from agent_gate.model.errors import GateError, IdentityError
from agent_gate.ports.reading import Reader


async def _read(asked: Asked, question: Callable[[Reader], dict[str, Any]]) -> Response:
    return json_response(await asked.reading.ask(question))


async def list_runs(asked: Asked) -> Response:
    limit = asked.query["limit"]
    return await _read(asked, lambda reader: {"runs": query.runs(reader, limit, asked.only, LISTED_RUN_COLUMNS)})


async def show_run(asked: Asked) -> Response:
    def shown_run(reader: Reader) -> dict[str, Any]:
        with reader.one_moment():
            run_id = _known_run(reader, asked)
            run = run_of(reader, run_id)
            return {"run": _shown_to(asked, run, "policy_json"), "steps": steps_shown(reader, run)}

    return await _read(asked, shown_run)


async def report(asked: Asked) -> Response:
    def built(reader: Reader) -> dict[str, Any]:
        whole = build_report(reader, _known_run(reader, asked), asked.context.gate.clock.now())
        return _shown_to(asked, whole, "policy")

    return await _read(asked, built)


def _shown_to(asked: Asked, fields: dict[str, Any], policy: str) -> dict[str, Any]:
    """An agent is told what its calls came to, and not all that the policy would let pass."""
    return fields if asked.only is None else {**fields, policy: None}


def _known_run(reader: Reader, asked: Asked) -> str:
    run_id = asked.path["run_id"]
    agent = query.agent_of_run(reader, run_id)
    if agent is None or asked.only not in (None, agent):
        raise NotThere("there is no such run of yours", code=4001, suggestion="see `/api/v1/runs`")
    return run_id


async def list_entries(asked: Asked) -> Response:
    filters = dict(asked.query)
    if asked.only is not None and filters.setdefault("agent", asked.only) != asked.only:
        raise IdentityError("the entries of others are for approvers", code=6003, suggestion="leave `agent` out")
    now = asked.context.gate.clock.now()
    if "before" in filters:
        project, _, number = filters["before"].rpartition(":")
        filters["before"] = project, int(number)

    def lines(reader: Reader) -> dict[str, Any]:
        found = query.audit(reader, now=now, bytes_max=asked.context.bounds.page_bytes_max, **filters)
        return {"entries": [line.to_json() for line in found]}

    return await _read(asked, lines)


async def show_state(asked: Asked) -> Response:
    version, snapshot_id = asked.query.get("version"), asked.query.get("snapshot_id")
    if isinstance(asked.caller, Agent):
        chosen = {key: asked.query[key] for key in ("version", "snapshot_id") if key in asked.query}
        if chosen:
            return await _shown_by(asked, "state.at", chosen)
        reached = await state_read(asked, "state.get", {"path": ""})
        if isinstance(reached, Response):
            return reached
        version = reached.state_version
    project = asked.query["project"]
    return await _read_state(asked, lambda reader: state.show(reader, project, version, snapshot_id).to_json())


async def state_history(asked: Asked) -> Response:
    project, limit = asked.query["project"], asked.query["limit"]
    if isinstance(asked.caller, Agent):
        return await _shown_by(asked, "state.history", {"limit": limit})
    return await _read_state(
        asked, lambda reader: {"versions": [change.to_json() for change in state.history(reader, project, limit)]}
    )


async def state_diff(asked: Asked) -> Response:
    project, before, after = asked.query["project"], asked.query.get("from", 0), asked.query.get("to")
    if isinstance(asked.caller, Agent):
        chosen = {key: asked.query[key] for key in ("from", "to") if key in asked.query}
        return await _shown_by(asked, "state.diff", chosen)

    def compared(reader: Reader) -> dict[str, Any]:
        with reader.one_moment():
            last = state.show(reader, project).version if after is None else after
            return {"from": before, "to": last, "diff": state.diff(reader, project, before, last)}

    return await _read_state(asked, compared)


async def _shown_by(asked: Asked, tool: str, args: dict[str, Any]) -> Response:
    reached = await state_read(asked, tool, args)
    return reached if isinstance(reached, Response) else json_response(reached.data)


async def _read_state(asked: Asked, question: Callable[[Reader], dict[str, Any]]) -> Response:
    try:
        return await _read(asked, question)
    except GateError as error:
        if error.code not in (1017, 2002):
            raise
        raise NotThere(error.problem.detail, code=error.code, suggestion=error.problem.suggestion) from None


_RUN_ID = {"run_id": ID}
_VERSION = {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX}
_PLACE = {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}:[0-9]{1,15}$",
    "description": "Go on after this one: `project:seq` of the last entry of the page before.",
}
_NO_SUCH_STATE = {404: "There is no such project, or no such version of its state."}

OPERATIONS = (
    Operation(
        "listRuns",
        "GET",
        "/runs",
        Who.EITHER,
        "Runs of plans",
        list_runs,
        {200: record({"runs": listed(ref("ListedRun"))})},
        "An agent sees those that it began.",
        query={"limit": LIMIT},
    ),
    Operation(
        "showRun",
        "GET",
        "/runs/{run_id}",
        Who.EITHER,
        "One run and its steps",
        show_run,
        {200: record({"run": ref("Run"), "steps": listed(OBJECT)})},
        "An agent is not told the policy.",
        path_fields=_RUN_ID,
    ),
    Operation(
        "reportRun",
        "GET",
        "/runs/{run_id}/report",
        Who.EITHER,
        "The report of a run",
        report,
        {200: OBJECT},
        "As `agent-gate report --format json` gives it.",
        path_fields=_RUN_ID,
    ),
    Operation(
        "listEntries",
        "GET",
        "/entries",
        Who.EITHER,
        "How the last calls ended",
        list_entries,
        {200: record({"entries": listed(ref("Entry"))})},
        "As `agent-gate audit` gives them; an agent sees its own.",
        query={
            "limit": LIMIT,
            "tool": name_of("A tool, or a pattern such as `fs.*`."),
            "agent": name_of("An agent, or a pattern."),
            "status": {**one_of(*query.OUTCOMES), "description": "How the call ended."},
            "since": SINCE,
            "before": _PLACE,
            "project": {key: value for key, value in PROJECT.items() if key != "default"},
        },
    ),
    Operation(
        "showState",
        "GET",
        "/state",
        Who.EITHER,
        "A project's state, now or at a version",
        show_state,
        {200: ref("State"), 202: ref("Outcome")},
        "For an agent a call of `state.get`, and of an earlier version one of `state.at`: judged and recorded.",
        calls_a_tool=True,
        query={
            "project": PROJECT,
            "version": {**_VERSION, "description": "0 is the initial state; absent: now."},
            "snapshot_id": {**ID, "description": "Instead of a version."},
        },
        refuses=_NO_SUCH_STATE,
    ),
    Operation(
        "listStateVersions",
        "GET",
        "/state/history",
        Who.EITHER,
        "The versions of a project's state",
        state_history,
        {200: record({"versions": listed(ref("StateChange"))}), 202: ref("Outcome")},
        "For an agent a call of `state.history`, to which rules against `state.get()` apply too.",
        calls_a_tool=True,
        query={"project": PROJECT, "limit": LIMIT},
        refuses=_NO_SUCH_STATE,
    ),
    Operation(
        "compareStates",
        "GET",
        "/state/diff",
        Who.EITHER,
        "What changed between two versions, as RFC 6902",
        state_diff,
        {200: record({"from": _VERSION, "to": _VERSION, "diff": listed(OBJECT)}), 202: ref("Outcome")},
        "For an agent a call of `state.diff`, to which rules against `state.get()` apply too.",
        calls_a_tool=True,
        query={
            "project": PROJECT,
            "from": {**_VERSION, "description": "The earlier version; absent: 0."},
            "to": {**_VERSION, "description": "The later one; absent: the last."},
        },
        refuses=_NO_SUCH_STATE,
    ),
)
