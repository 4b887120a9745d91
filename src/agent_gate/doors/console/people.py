"""Pages of what people have given and stopped: standing grants, and the switch that denies everything."""

from __future__ import annotations

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit
from agent_gate.model.bounds import CONSOLE_NOTE_CHARS_MAX
from agent_gate.model.errors import GateError


async def show_grants(visit: Visit) -> Response:
    return await visit.page("grants.html", grants=await visit.context.approvals.grants())


async def revoke(visit: Visit) -> Response:
    try:
        grant = await visit.context.approvals.revoke(visit.request.path_params["grant_id"], visit.approver)
    except GateError as error:
        visit.tell_problem(error.problem)
    else:
        visit.tell(f"Revoked: {grant.tool} of {grant.agent_id} is asked about again.")
    return visit.go("grants")


async def show_switch(visit: Visit) -> Response:
    return await visit.page("switch.html", note_chars_max=CONSOLE_NOTE_CHARS_MAX)


async def pause(visit: Visit) -> Response:
    changed = await visit.context.approvals.pause(visit.approver, visit.form.get("reason", "")[:CONSOLE_NOTE_CHARS_MAX])
    visit.tell("Paused: every call is denied until somebody resumes." if changed else "It was paused already.")
    return visit.go("switch")


async def resume(visit: Visit) -> Response:
    changed = await visit.context.approvals.resume(
        visit.approver, visit.form.get("reason", "")[:CONSOLE_NOTE_CHARS_MAX]
    )
    visit.tell("Resumed: calls are judged as before." if changed else "It was not paused.")
    return visit.go("switch")
