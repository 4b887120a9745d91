"""Questions to show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent_gate.model.approval import Question
from tests.gates import NOON

QUESTION = Question(
    call_id="01K0000000000000000000000A",
    request_id="r1",
    project="home",
    agent_id="bot",
    owner="carol",
    tool="mail.send",
    args={"to": "anna@example.test", "text": "hi"},
    signatures=("mail.send(anna@example.test, hi)",),
    reasons=({"layer": "rules", "rule": "mail.*", "text": "mail leaves the house"},),
    bound_hash="b" * 64,
    nonce="n" * 32,
    policy_hash="p" * 64,
    approver_roles=(),
    approvers_required=1,
    created_at=NOON,
    expires_at=NOON + 900,
)


def a_question(**fields: Any) -> Question:
    return replace(QUESTION, **fields)
