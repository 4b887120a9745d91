"""The bodies of a webhook's messages: a question with the answers that can be sent back, and its end."""

from __future__ import annotations

from typing import Any

from agent_gate.doors.messengers.render import render
from agent_gate.doors.messengers.seal import Seals, offered
from agent_gate.doors.messengers.status import Ended, Open
from agent_gate.doors.shapes import digest, question_to_json
from agent_gate.model.approval import Question
from agent_gate.model.bounds import WEBHOOK_TEXT_UNITS_MAX
from agent_gate.model.moment import iso

CHANNEL = "webhook"


def is_complete(question: Question) -> bool:
    """Say whether the whole call is in what the receiver is sent; what is not shown in full cannot be approved."""
    return render(question, units_max=WEBHOOK_TEXT_UNITS_MAX).complete


def asked(now: Open, seals: Seals, *, anew: bool, once_only: bool) -> dict[str, Any]:
    """`once_only` where a yes is one to this call alone."""
    question = now.question
    rendered = render(question, now.approved_by, unattended=now.unattended, units_max=WEBHOOK_TEXT_UNITS_MAX)
    data = question_to_json(question, now.approved_by)
    if not rendered.complete:
        del data["args"], data["signatures"]
    data |= {
        "owner": question.owner,
        "sensitive": list(question.sensitive),
        "unattended": now.unattended,
        "complete": rendered.complete,
        "text": rendered.text,
        "answers": {
            verb.name.lower(): seals.sealed(verb, question.call_id, digest(question)).text
            for verb in offered(complete=rendered.complete, once_only=once_only)
        },
    }
    return {
        "type": "question.asked" if anew else "question.updated",
        "timestamp": iso(question.created_at),
        "data": data,
    }


def ended(call_id: str, now: Ended) -> dict[str, Any]:
    told = now.headline.partition("\n")[0]  # without what becomes of the call, which is told to the agent
    data = {"call_id": call_id, "resolution": now.resolution, "by": list(now.by), "text": told}
    return {"type": "question.ended", "timestamp": iso(now.at), "data": data}
