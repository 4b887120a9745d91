"""Reading over the API: an agent reads by a call that is judged and recorded, a person by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.responses import Response

from agent_gate.doors.api.waiting import while_there
from agent_gate.doors.codes import http_status_of_outcome
from agent_gate.doors.http import json_response, problem_response
from agent_gate.doors.reads import leave_to_read, look
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json

if TYPE_CHECKING:
    from agent_gate.doors.api.operation import Asked

DOOR = "http"
GONE = 499
"""The status of an answer that nobody reads."""


async def refusal(asked: Asked, place: str) -> Response | None:
    """Say why what the request asks for is not shown; None where it is."""
    if isinstance(asked.caller, Approver):
        look(asked.context, asked.caller, DOOR, place)
        return None
    path = str(asked.request.scope["path"]).removeprefix("/api").removeprefix("/v1")
    reached = await reached_by(asked, leave_to_read(asked.agent, path, asked.query))
    return reached if isinstance(reached, Response) else None


async def state_read(asked: Asked, tool: str, args: Mapping[str, Json]) -> Outcome | Response:
    """Read a project's state for an agent, by the tool that shows it."""
    agent = asked.caller
    assert isinstance(agent, Agent)
    return await reached_by(asked, CallRequest(agent, tool, args, asked.query["project"], door=DOOR))


async def reached_by(asked: Asked, call: CallRequest) -> Outcome | Response:
    """The outcome of a call that was a success, otherwise the answer to the request."""
    outcome = await while_there(asked.request, asked.context.gate.submit(call))
    if outcome is None:
        return Response(status_code=GONE)
    if outcome.ok:
        return outcome
    if outcome.error is None:
        return json_response(outcome.to_json(), http_status_of_outcome(outcome))
    return problem_response(outcome.error, 404 if outcome.error.code == 2002 else None)
