"""Outcomes as results of MCP: the outcome itself for programs, and a text for whoever reads."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from mcp_types import CallToolResult, TextContent

from agent_gate.doors.codes import rpc_of_outcome
from agent_gate.doors.mcp.listing import GATE_RESULT
from agent_gate.model.approval import Approver, Question
from agent_gate.model.bounds import MCP_APPROVERS_SHOWN_MAX
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.visible import visible_words
from agent_gate.pipeline.hold import not_entitled
from agent_gate.policy.signature import shown

_SIGNATURES_SHOWN_MAX = 10


def result_of(outcome: Outcome, waits: str = "") -> CallToolResult:
    """`waits` says what is asked, where a person still is."""
    text = waits if outcome.status is Status.PENDING_APPROVAL and waits else _text(outcome)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=outcome.to_json(),
        is_error=rpc_of_outcome(outcome) is not None,
    )


def _text(outcome: Outcome) -> str:
    if outcome.error is not None:
        problem = outcome.error
        said = f"{problem.detail}; {problem.suggestion}" if problem.suggestion else problem.detail
        line = visible_words(f"{outcome.status.value} ({problem.code} {problem.name}): {said}")
        told = {"data": outcome.data, "files": outcome.files}
        # What a command said before it was refused; some clients show nothing but the text.
        return line if outcome.data is None else f"{line}\n{orjson.dumps(told).decode()}"
    if outcome.data is not None:
        return orjson.dumps(outcome.data).decode()
    return visible_words(outcome.message or outcome.status.value)


def asked(question: Question, approved_by: Sequence[str], approvers: Sequence[Approver]) -> str:
    """Say what is asked, until when, who can answer, and how to come back."""
    wanted = ", ".join(shown(signature) for signature in question.signatures[:_SIGNATURES_SHOWN_MAX])
    further = len(question.signatures) - _SIGNATURES_SHOWN_MAX
    reasons = "; ".join(text for reason in question.reasons if (text := reason.get("text") or reason.get("rule")))
    more = question.approvers_required - len(approved_by)
    lines = [
        f"pending approval: a person must agree to {wanted}{f' and {further} more' if further > 0 else ''}",
        *([f"why: {reasons}"] if reasons else []),
        f"until: {iso(question.expires_at)}",
        f"who can answer: {_who(question, approvers)}{f'; {more} of them must agree' if more > 1 else ''}",
        f"where: in the console of `agent-gate serve`, or `agent-gate approve {question.call_id}`",
        f"how to come back: make the same call again, or call {GATE_RESULT} with call_id {question.call_id}",
    ]
    return "\n".join(map(visible_words, lines))


def agreed(approved_by: Sequence[str]) -> str:
    """Tell how to come back for what a person has agreed to: the process that was to perform it may be gone."""
    names = ", ".join(approved_by)
    return visible_words(f"approved by {names}: make the same call again, with the same arguments, to get its outcome")


def _who(question: Question, approvers: Sequence[Approver]) -> str:
    names = [approver.id for approver in approvers if not_entitled(question, approver) is None]
    roles = " and ".join(question.approver_roles)
    anybody = f"an approver with role {roles}" if roles else "any approver"
    if not names:
        return anybody
    rest = len(names) - MCP_APPROVERS_SHOWN_MAX
    return ", ".join(names[:MCP_APPROVERS_SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")
