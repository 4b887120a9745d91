"""Answers by webhook: one sealed answer, sent back by the receiver that was told of the question."""

from __future__ import annotations

from typing import assert_never

from starlette.responses import Response

from agent_gate.doors.api.operation import Asked, Conflict, NotThere, Operation, Who
from agent_gate.doors.api.people import as_kind
from agent_gate.doors.api.schemas import NOTE, TRUTH, UNATTENDED, name_of, record, text
from agent_gate.doors.http import json_response
from agent_gate.doors.messengers.answers import Answers, Counted, NotCounted, TurnedAway
from agent_gate.doors.messengers.seal import Seals, Verb, read
from agent_gate.doors.messengers.webhook.payload import CHANNEL, is_complete
from agent_gate.model.errors import GateError, ToolError


async def answer(asked: Asked) -> Response:
    context, by = asked.context, asked.approver
    sealed = read(asked.body["answer"])
    if sealed is None:
        raise ToolError("the answer is none of those that were offered", code=2002, suggestion="send one of `answers`")
    before = await context.gate.ledger.question(sealed.call_id)
    answers = Answers(context, Seals(context.gate.secrets.keyed_hash, CHANNEL), is_complete)
    given = await answers.give(sealed, by, f"webhook:{by.id}", note=asked.body.get("note", ""))
    match given:
        case Counted():
            still_open = await context.approvals.question(sealed.call_id) is not None
            told = {"call_id": sealed.call_id, "approved": sealed.verb is not Verb.DENY, "open": still_open}
            return json_response({**told, "unattended": given.unattended} if given.unattended else told)
        case NotCounted():
            error = GateError.of(given.problem)
            if before is None:
                raise as_kind(NotThere, error)
            raise as_kind(Conflict, error) if before[1] is not None else error
        case TurnedAway():
            raise GateError.of(given.problem)
        case _:
            assert_never(given)


OPERATIONS = (
    Operation(
        "answer",
        "POST",
        "/answers",
        Who.SIGNED,
        "Answer a question that a webhook was told of",
        answer,
        {200: record({"call_id": text(), "approved": TRUTH, "open": TRUTH}, {"unattended": UNATTENDED})},
        "`open` in the answer: more people must agree.",
        body=record(
            {
                "type": {"const": "answer"},
                "approver": name_of("Who answers: the id of an approver of the configuration."),
                "answer": {
                    **text(),
                    "maxLength": 200,
                    "description": "One of the question's `answers`.",
                },
            },
            {"note": NOTE},
        ),
        refuses={
            401: "It is not signed, not with the secret of the webhook, or not within five minutes.",
            403: "The person may not answer this question, or the answer was not offered for it as it stands.",
            404: "There is no such question.",
            409: "It was answered already, its deadline has passed, or the same `webhook-id` was used before.",
        },
    ),
)
