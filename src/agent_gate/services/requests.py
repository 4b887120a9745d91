"""`http.request`: a request of others' traffic as the gate binds it; no tool, because nothing is performed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import sha256_hex
from agent_gate.model.limits import REQUEST_BODY_SHOWN_BYTES_MAX
from agent_gate.model.tool import Json
from agent_gate.policy.declared import unregistered
from agent_gate.policy.guards.urls import parse_url
from agent_gate.ports import Hand, HttpRequest

NAME = "http.request"
HTTP_REQUEST = replace(unregistered(NAME), sensitive=frozenset({"method", "url", "query", "body"}))
"""What it does is known to whoever performs it: it is taken for an act, unless the policy declares otherwise."""


def request_hand() -> Hand:
    return Hand(HTTP_REQUEST, "requests", lambda _: None, _signatures)


def _signatures(args: Mapping[str, Json]) -> tuple[str, ...]:
    return (f"{NAME}({args['method']} {parse_url(args['url']).signed})",)


def wish_of(agent: Agent, request: HttpRequest) -> CallRequest:
    """In the agent's first project; bound to all of the request, so that what was agreed to is what passes."""
    args: dict[str, Json] = {"method": request.method, "url": request.url}
    if request.query_params:
        args["query"] = [list(pair) for pair in request.query_params]
    if request.body:
        args["body"] = _shown(request.body)
    project = next((name for name in agent.projects if name != "*"), "default")
    return CallRequest(agent, NAME, args, project, wait=False)


def _shown(body: bytes) -> Json:
    """As a person can read it; otherwise by what tells it from any other."""
    try:
        if len(body) <= REQUEST_BODY_SHOWN_BYTES_MAX:
            return body.decode()
    except UnicodeDecodeError:
        pass
    return {"bytes": len(body), "sha256": sha256_hex(body)}
