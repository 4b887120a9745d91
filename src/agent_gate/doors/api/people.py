"""Operations of approvers: see questions, answer them, give and take back grants, stop everything, try the policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from agent_gate.doors.api.operation import Asked, Conflict, NotThere, Operation, Who
from agent_gate.doors.api.schemas import (
    GRANT_TERMS,
    ID,
    LIMIT,
    MODE,
    NONCE,
    NOTE,
    PROJECT,
    TRUTH,
    UNATTENDED,
    WHOLE,
    listed,
    name_of,
    record,
    ref,
    text,
)
from agent_gate.doors.http import json_response
from agent_gate.doors.shapes import question_to_json
from agent_gate.gate.gate import mode_named
from agent_gate.history.questions import open_questions
from agent_gate.model.approval import GrantTerms, Question
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.errors import GateError


async def list_pending(asked: Asked) -> Response:
    clock, limit = asked.context.gate.clock, asked.query["limit"]
    bytes_max = asked.context.bounds.page_bytes_max
    found = await asked.reading.ask(lambda reader: open_questions(reader, clock, limit, bytes_max, asked.only))
    told = [_told(question, approved_by, whole=asked.only is None) for question, approved_by in found.first]
    for fields, (question, _) in zip(told, found.first, strict=True):
        if unattended := await asked.context.approvals.unattended(question):
            fields["unattended"] = unattended
    return json_response({"pending": told, "total": found.total})


def _told(question: Question, approved_by: tuple[str, ...], *, whole: bool) -> dict[str, Any]:
    """A question as JSON; what an answer needs is told to those alone who may give one."""
    fields = question_to_json(question, approved_by)
    if whole:
        fields |= {"nonce": question.nonce, "bound_hash": question.bound_hash}
    return fields


async def approve(asked: Asked) -> Response:
    return await _answer(asked, yes=True)


async def deny(asked: Asked) -> Response:
    return await _answer(asked, yes=False)


async def _answer(asked: Asked, *, yes: bool) -> Response:
    call_id, body = asked.path["call_id"], asked.body
    terms = GrantTerms(**body["grant"]) if "grant" in body else None
    before = await asked.context.gate.ledger.question(call_id)
    try:
        unattended = await asked.context.approvals.answer(
            call_id,
            approve=yes,
            by=asked.approver,
            nonce=body.get("nonce"),
            note=body.get("note", ""),
            grant=terms,
        )
    except GateError as error:
        if before is None:
            raise as_kind(NotThere, error) from None
        if before[1] is not None:
            raise as_kind(Conflict, error) from None
        raise
    still_open = await asked.context.approvals.question(call_id) is not None
    told = {"call_id": call_id, "approved": yes, "open": still_open}
    return json_response({**told, "unattended": unattended} if unattended else told)


def as_kind(kind: type[GateError], error: GateError) -> GateError:
    problem = error.problem
    return kind(problem.detail, code=problem.code, suggestion=problem.suggestion, stage=problem.stage)


async def list_grants(asked: Asked) -> Response:
    return json_response({"grants": [grant.to_json() for grant in await asked.context.approvals.grants()]})


async def revoke(asked: Asked) -> Response:
    try:
        grant = await asked.context.approvals.revoke(asked.path["grant_id"], asked.approver)
    except GateError as error:
        raise as_kind(NotThere, error) from None
    return json_response({"revoked": grant.to_json()})


async def pause(asked: Asked) -> Response:
    changed = await asked.context.approvals.pause(asked.approver, asked.body.get("reason", ""))
    return json_response({"paused": True, "changed": changed})


async def resume(asked: Asked) -> Response:
    changed = await asked.context.approvals.resume(asked.approver, asked.body.get("reason", ""))
    return json_response({"paused": False, "changed": changed})


async def check_policy(asked: Asked) -> Response:
    body, context = asked.body, asked.context
    agent = Agent("check", tuple(body.get("roles", ("operator",))), ("*",))
    if "agent" in body:
        known = context.identities.agents.get(body["agent"])
        if known is None:
            raise NotThere("there is no such agent", code=2002, suggestion="name one of the configuration")
        # Its pace is for its own requests.
        agent = replace(known, roles=tuple(body.get("roles", known.roles)), requests_per_minute=None)
    request = CallRequest(
        agent,
        body["tool"],
        body["args"],
        body.get("project", "default"),
        confirmed=body.get("confirmed", False),
        mode=mode_named(body.get("mode")),
    )
    outcome, _ = await context.gate.simulate(request)
    return json_response(outcome.to_json())


_CALL_ID = {"call_id": ID}
_ANSWERED = {200: record({"call_id": text(), "approved": TRUTH, "open": TRUTH}, {"unattended": UNATTENDED})}
_ANSWER_REFUSALS = {
    403: "The person may not answer this question, or the token is one for other operations.",
    409: "It was answered already, or its deadline has passed.",
}
_SWITCHED = {200: record({"paused": TRUTH, "changed": TRUTH})}
_REASON = record({}, {"reason": NOTE})

OPERATIONS = (
    Operation(
        "listPending",
        "GET",
        "/pending",
        Who.EITHER,
        "Questions that wait for an answer, the oldest first",
        list_pending,
        {
            200: record(
                {"pending": listed(ref("Question")), "total": {**WHOLE, "description": "Of those that are open."}}
            )
        },
        "An agent sees those about its own calls, without what an answer needs.",
        query={"limit": {**LIMIT, "default": LIMIT["maximum"], "description": "How many at most, the oldest first."}},
    ),
    Operation(
        "approve",
        "POST",
        "/pending/{call_id}/approve",
        Who.APPROVER,
        "Agree to a call",
        approve,
        _ANSWERED,
        "`open` in the answer: more people must agree.",
        path_fields=_CALL_ID,
        body=record({}, {"nonce": NONCE, "note": NOTE, "grant": GRANT_TERMS}),
        body_required=False,
        refuses=_ANSWER_REFUSALS,
    ),
    Operation(
        "deny",
        "POST",
        "/pending/{call_id}/deny",
        Who.APPROVER,
        "Say no to a call",
        deny,
        _ANSWERED,
        path_fields=_CALL_ID,
        body=record({}, {"nonce": NONCE, "note": NOTE}),
        body_required=False,
        refuses=_ANSWER_REFUSALS,
    ),
    Operation(
        "listGrants",
        "GET",
        "/grants",
        Who.APPROVER,
        "Standing grants that can still be used",
        list_grants,
        {200: record({"grants": listed(ref("Grant"))})},
    ),
    Operation(
        "revokeGrant",
        "DELETE",
        "/grants/{grant_id}",
        Who.APPROVER,
        "Take a grant back",
        revoke,
        {200: record({"revoked": ref("Grant")})},
        path_fields={"grant_id": ID},
    ),
    Operation(
        "pause",
        "POST",
        "/pause",
        Who.APPROVER,
        "Deny everything from now on",
        pause,
        _SWITCHED,
        body=_REASON,
        body_required=False,
    ),
    Operation(
        "resume",
        "POST",
        "/resume",
        Who.APPROVER,
        "Let calls pass again",
        resume,
        _SWITCHED,
        body=_REASON,
        body_required=False,
    ),
    Operation(
        "checkPolicy",
        "POST",
        "/policy/check",
        Who.APPROVER,
        "How the policy in force would judge a call",
        check_policy,
        {200: ref("Outcome")},
        "Nothing is done, nobody is asked, nothing is recorded. Without `agent` it is judged as somebody with the roles"
        " that are given.",
        body=record(
            {"tool": name_of("The tool."), "args": ref("Args")},
            {
                "agent": name_of("An agent of the configuration."),
                "roles": listed(name_of("A role."), minItems=1, maxItems=20),
                "project": PROJECT,
                "mode": MODE,
                "confirmed": {**TRUTH, "default": False},
            },
        ),
        refuses={404: "There is no such agent."},
        only_looks=True,
    ),
)
