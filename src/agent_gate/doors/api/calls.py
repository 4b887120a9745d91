"""Operations of agents: make calls and plans, try them, take them back, fetch outcomes reached while they were away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from agent_gate.config import load_plan
from agent_gate.doors.api.operation import Asked, Conflict, NotThere, Operation, Who
from agent_gate.doors.api.place import CLOSING
from agent_gate.doors.api.reads import DOOR, GONE, refusal
from agent_gate.doors.api.schemas import IDS, MODE, PROJECT, TRUTH, WHOLE, listed, name_of, record, ref
from agent_gate.doors.api.waiting import while_there
from agent_gate.doors.codes import http_status_of_outcome
from agent_gate.doors.http import acting_for, json_response
from agent_gate.doors.shapes import offered_to, run_to_json, tool_to_json
from agent_gate.gate.gate import mode_named
from agent_gate.gate.plans import RunResult, run_plan
from agent_gate.gate.progress import still_open
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.entry import Entry
from agent_gate.model.errors import GateError, PlanValidationError
from agent_gate.model.outcome import Outcome

_OUTCOMES = {200: ref("Outcome"), 202: ref("Outcome")}
_CALL_ID = {"id": name_of("The call id, or your own request id.")}


async def make_call(asked: Asked) -> Response:
    return await _submitted(asked, _request(asked))


async def simulate(asked: Asked) -> Response:
    outcome, _ = await asked.context.gate.simulate(_request(asked), shows_state=False)
    return json_response(outcome.to_json())


async def revert(asked: Asked) -> Response:
    body = asked.body
    tool, key = ("gate.revert", "call_id") if "call_id" in body else ("state.revert", "snapshot_id")
    by_person = isinstance(asked.caller, Approver)
    request = CallRequest(
        acting_for(asked.caller),
        tool,
        {key: body[key]},
        body.get("project", "default"),
        body.get("request_id"),
        wait=body.get("wait", True),
        door="" if by_person else DOOR,
    )
    return await _submitted(asked, request)


def _request(asked: Asked) -> CallRequest:
    body = asked.body
    return CallRequest(
        asked.agent,
        body["tool"],
        body["args"],
        body.get("project", "default"),
        body.get("request_id"),
        body.get("confirmed", False),
        mode_named(body.get("mode")),
        wait=body.get("wait", True),
        door=DOOR,
    )


async def _submitted(asked: Asked, request: CallRequest) -> Response:
    outcome = await while_there(asked.request, asked.context.gate.submit(request))
    if outcome is None:
        return Response(status_code=GONE)
    return _answer(outcome)


def _answer(outcome: Outcome) -> Response:
    return json_response(outcome.to_json(), http_status_of_outcome(outcome))


async def show_call(asked: Asked) -> Response:
    call_id, _ = await _known_call(asked)
    gate = asked.context.gate
    found = await gate.ledger.question(call_id)
    if found is not None and found[1] is None:
        return _answer(still_open(found[0]))
    outcome = await gate.result(call_id)
    if outcome is None:
        raise _unsettled(call_id)
    return _answer(outcome)


def _unsettled(call_id: str) -> Conflict:
    return Conflict(f"call `{call_id}` has no outcome yet", code=2007, suggestion="ask again later")


async def withdraw(asked: Asked) -> Response:
    call_id, entries = await _known_call(asked)
    gate, request_id = asked.context.gate, entries[0].request_id
    claimed = request_id and await gate.ledger.claimed(asked.agent.id, request_id)
    found = await gate.ledger.question(call_id)
    has_ended = found is None or found[1] is not None
    if has_ended and (refused := await refusal(asked, "/calls/{id}")):  # that is a look at the outcome
        return refused
    if request_id and claimed and claimed[0] == call_id:
        outcome: Outcome | None = await gate.withdraw(asked.agent, request_id)
    elif found is not None:
        raise Conflict(f"call `{call_id}` was made without a request id", suggestion="let its deadline pass")
    else:
        outcome = await gate.result(call_id)
    if outcome is None:
        raise _unsettled(call_id)
    return json_response(outcome.to_json())


async def _known_call(asked: Asked) -> tuple[str, Sequence[Entry]]:
    """The call that the path names, by its id or the agent's own; another agent's is not there."""
    ledger, name = asked.context.gate.ledger, asked.path["id"]
    claimed = await ledger.claimed(asked.only, name) if asked.only is not None else None
    call_id = claimed[0] if claimed else name
    entries = await ledger.entries_of(call_id)
    if not entries or asked.only not in (None, entries[0].agent_id):
        raise NotThere("there is no such call of yours", code=2002, suggestion="see `/api/v1/entries`")
    return call_id, entries


async def run(asked: Asked) -> Response:
    """To its end, also where the client goes: a plan is not half wanted. A server that ends breaks it off."""
    body = asked.body
    try:
        plan = load_plan(body["plan"])
        running = asyncio.ensure_future(
            run_plan(
                asked.context.gate,
                plan,
                project=body.get("project", "default"),
                agent=asked.agent,
                mode=body.get("mode"),
                simulate=body.get("simulate", False),
                with_previews=False,
                shows_state=False,
            )
        )
        return json_response(run_to_json(await _until_closing(asked, running)))
    except PlanValidationError as error:
        return json_response({"status": "failed", "outcomes": [], "error": error.problem.to_json()})


async def _until_closing(asked: Asked, running: asyncio.Future[RunResult]) -> RunResult:
    closing = asyncio.ensure_future(asked.context.closing.wait())
    try:
        either: set[asyncio.Future[Any]] = {running, closing}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.cancel()
        running.cancel()
    await asyncio.wait({running})
    if running.cancelled():
        raise GateError.of(CLOSING)
    return running.result()


async def list_tools(asked: Asked) -> Response:
    gate, caller = asked.context.gate, asked.caller
    if isinstance(caller, Agent):
        tools = offered_to(caller, gate)
    else:
        tools = [gate.judge.declared(registered.declaration) for registered in gate.tools.all()]
    return json_response({"tools": [tool_to_json(tool) for tool in tools]})


async def list_results(asked: Asked) -> Response:
    outcomes = await asked.context.mailbox.results(asked.agent)
    return json_response({"results": [outcome.to_json() for outcome in outcomes]})


async def acknowledge(asked: Asked) -> Response:
    return json_response({"acknowledged": await asked.context.mailbox.acknowledge(asked.agent, asked.body["ids"])})


_PLAN = record({"plan": ref("Plan")}, {"project": PROJECT, "mode": MODE, "simulate": {**TRUTH, "default": False}})
_REVERT_OPTIONS = {"project": PROJECT, "request_id": name_of("As in a call."), "wait": {**TRUTH, "default": True}}
_REVERT = {
    "oneOf": [
        record({"call_id": name_of("The call to undo.")}, _REVERT_OPTIONS),
        record({"snapshot_id": name_of("The snapshot to bring back.")}, _REVERT_OPTIONS),
    ]
}

OPERATIONS = (
    Operation(
        "makeCall",
        "POST",
        "/calls",
        Who.AGENT,
        "Make a call",
        make_call,
        _OUTCOMES,
        "Where a person must agree, the answer waits for them until the question's deadline; with `wait: false` it is"
        " `pending_approval` at once. A client that goes away ends only the waiting: the call goes on, and its outcome"
        " is kept under `/results`.",
        body=ref("Call"),
    ),
    Operation(
        "showCall",
        "GET",
        "/calls/{id}",
        Who.EITHER,
        "The outcome of a call",
        show_call,
        _OUTCOMES,
        "An agent sees its own calls.",
        path_fields=_CALL_ID,
        refuses={409: "It is under way in another process."},
    ),
    Operation(
        "withdrawCall",
        "POST",
        "/calls/{id}/withdraw",
        Who.AGENT,
        "Take a call back that waits for a person",
        withdraw,
        {200: ref("Outcome")},
        "One that has ended stays as it is, and its outcome is the answer.",
        path_fields=_CALL_ID,
        refuses={409: "It is being performed, or was made without a request id."},
    ),
    Operation(
        "simulate",
        "POST",
        "/simulate",
        Who.AGENT,
        "What a call would come to",
        simulate,
        {200: ref("Outcome")},
        "Nothing is done, nobody is asked, nothing is recorded.",
        body=ref("SimulatedCall"),
    ),
    Operation(
        "runPlan",
        "POST",
        "/plans",
        Who.AGENT,
        "Run a plan",
        run,
        {200: ref("RunResult")},
        "Step after step, until one is not a success.",
        body=_PLAN,
    ),
    Operation(
        "listTools",
        "GET",
        "/tools",
        Who.EITHER,
        "What can be called here",
        list_tools,
        {200: record({"tools": listed(ref("Tool"))})},
        "An agent sees the tools that it could ever use.",
    ),
    Operation(
        "listResults",
        "GET",
        "/results",
        Who.AGENT,
        "Outcomes that were reached while the agent was away",
        list_results,
        {200: record({"results": listed(ref("Outcome"))})},
        "They stay until they are acknowledged.",
    ),
    Operation(
        "acknowledgeResults",
        "POST",
        "/results/ack",
        Who.AGENT,
        "Acknowledge results",
        acknowledge,
        {200: record({"acknowledged": WHOLE})},
        body=record({"ids": IDS}),
    ),
    Operation(
        "revert",
        "POST",
        "/revert",
        Who.EITHER,
        "Undo a call, or bring a snapshot of the state back",
        revert,
        _OUTCOMES,
        "A call like any other: judged, asked for where the policy says so, and recorded. Another person must agree to"
        " an approver's.",
        body=_REVERT,
    ),
)
