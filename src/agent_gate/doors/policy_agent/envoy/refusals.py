"""Refusals to a client of Envoy's where the chain itself gives no answer for it."""

from __future__ import annotations

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import Phase
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.policy import StatusCode
from agent_gate.model.codec import canonical

_STATUS = {StatusCode.POLICY_DENIED: 403, StatusCode.POLICY_ERROR: 500, StatusCode.TIMEOUT: 504}
_WORDS = {
    StatusCode.POLICY_DENIED: "denied by policy",
    StatusCode.POLICY_ERROR: "the request could not be checked",
    StatusCode.TIMEOUT: "checking the request took too long",
}
BAD_GATEWAY = 502


def refusal(status: int, message: str) -> ImmediateResponse:
    return ImmediateResponse(status, {"content-type": "application/json"}, canonical({"error": message}))


def refusal_of(response: Response, phase: Phase) -> ImmediateResponse | None:
    """None where the message may pass.

    Why a policy failed is for the log: the client is not told what runs here.
    """
    if response.passes:
        return None
    if response.immediate is not None:
        return response.immediate
    code = response.status if response.status in _STATUS else StatusCode.POLICY_ERROR
    status = _STATUS[code] if phase is Phase.REQUEST else BAD_GATEWAY
    return refusal(status, _WORDS[code])


def too_large(phase: Phase) -> ImmediateResponse:
    return refusal(413 if phase is Phase.REQUEST else BAD_GATEWAY, "the body is too large to be checked")
