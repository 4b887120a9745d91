"""`gate`: puts a request before the permission rules, and where they ask a person, sends the caller to come again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from agent_gate.chain.builtin.bound_headers import NEVER_BOUND, UNBOUND, BoundHeaders
from agent_gate.chain.builtin.identity import identity_of
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import PolicyFailure
from agent_gate.chain.policy import PASSED, Policy, PolicyResult, denied, object_schema
from agent_gate.model.errors import GateError
from agent_gate.model.tool import Json
from agent_gate.policy.guards.urls import Url, parse_url
from agent_gate.ports.judging import HttpRequest, RequestAllowed, RequestDenied, RequestHeld, RequestJudge

_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}").fullmatch
_AUTHORITY = re.compile(r"[^/?#@\\]+").fullmatch
_PLAIN_PATH = re.compile(r"/[!-~]*").fullmatch
"""In ASCII: which characters other bytes are, programs disagree about."""
_AMBIGUOUS = re.compile(r"//|\\|%5c|(?:\A|/)(?:\.|%2e){1,2}(?:[/;]|\Z)|[?#]", re.IGNORECASE).search
"""Paths that programs read differently: empty segments, dots and backslashes, escaped or not."""

_NAMES = {
    "type": "array",
    "maxItems": 64,
    "items": {"type": "string", "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}$"},
}


@dataclass(frozen=True, slots=True)
class GateSettings:
    agent_id: str
    """Empty: whoever an earlier policy says it is."""
    bound: BoundHeaders


class GatePolicy(Policy[GateSettings]):
    name = "gate"
    description = "judges the request by the permission rules of the gate"
    metadata_schema = object_schema(
        {
            "agent_id": {"type": "string", "minLength": 1, "maxLength": 200},
            "bind_headers": _NAMES,
            "ignore_headers": _NAMES,
        }
    )

    def __init__(self, judge: RequestJudge) -> None:
        self._judge = judge

    def prepare(self, metadata: Mapping[str, Json]) -> GateSettings:
        return GateSettings(metadata.get("agent_id", ""), _bound_headers(metadata))

    async def execute(self, settings: GateSettings, context: RequestContext) -> PolicyResult:
        agent_id = settings.agent_id or identity_of(context)
        if not agent_id:
            return denied(
                "nobody has said who calls", 403, more={"detail": "put api_key or jwt before gate, or name an agent_id"}
            )
        try:
            url = _url(context)
        except GateError as error:
            return denied(error.problem.detail, 400)
        shown, credentials = settings.bound.of(context.headers)
        request = HttpRequest(
            agent_id,
            f"http.request({context.method} {url.signed})",
            context.method,
            url.text,
            context.query_params,
            context.body,
            _as_sent(context),
            shown,
            credentials,
            context.body_unseen,
        )
        judgement = await self._judge.judge_request(request)
        match judgement:
            case RequestAllowed():
                return PASSED
            case RequestDenied(problem):
                return denied(str(problem), 403, more={"code": problem.code})
            case RequestHeld(call_id, retry_after_s):
                return denied(
                    "waits for approval",
                    403,
                    {"retry-after": str(retry_after_s), "x-agent-gate-call-id": call_id},
                    {"call_id": call_id, "status": "pending_approval"},
                )
            case _:
                assert_never(judgement)

    async def health_check(self) -> None:
        try:
            await self._judge.health_check()
        except GateError as error:
            raise PolicyFailure(f"the gate cannot judge: {error.problem.detail}") from None


def _bound_headers(metadata: Mapping[str, Json]) -> BoundHeaders:
    if "bind_headers" in metadata and "ignore_headers" in metadata:
        raise ValueError("`bind_headers` says all; leave `ignore_headers` out")
    only = metadata.get("bind_headers")
    named = frozenset(name.lower() for name in only or metadata.get("ignore_headers", ()))
    if only is None:
        return BoundHeaders(ignored=UNBOUND | named)
    if named & NEVER_BOUND:
        raise ValueError(
            f"`bind_headers`: {min(named & NEVER_BOUND)} frames the message, and says nothing of its meaning"
        )
    return BoundHeaders(named)


def _as_sent(context: RequestContext) -> str:
    query = "" if context.raw_query is None else f"?{context.raw_query}"
    return f"{context.scheme}://{context.authority}{context.path}{query}"


def _url(context: RequestContext) -> Url:
    """In the one spelling that rules match; what the server behind could read otherwise is refused."""
    if not _METHOD(context.method):
        raise GateError("the method is not one of HTTP's", code=2002)
    if not _AUTHORITY(context.authority):
        raise GateError("the authority is not a host with a port", code=2002)
    if not _PLAIN_PATH(context.path) or _AMBIGUOUS(context.path):
        raise GateError("the path is not in its plain form", code=2002)
    return parse_url(f"{context.scheme}://{context.authority}{context.path}")
