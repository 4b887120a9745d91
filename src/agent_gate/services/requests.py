"""`http.request`: a request of others' traffic as the gate binds it; no tool, because nothing is performed here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agent_gate.model.bounds import REQUEST_BODY_SHOWN_BYTES_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import sha256_hex
from agent_gate.model.redaction import HIDDEN
from agent_gate.model.tool import Json
from agent_gate.policy.declared import unregistered
from agent_gate.policy.guards.urls import parse_url
from agent_gate.ports.judging import HttpRequest
from agent_gate.ports.tools import RegisteredTool

NAME = "http.request"
HTTP_REQUEST = replace(
    unregistered(NAME),
    sensitive=frozenset({"method", "url", "target", "query", "headers", "credentials", "body"}),
    secret=frozenset({"credentials"}),
)
"""Declaration of a request of others: an act, unless the policy says otherwise, for only its sender knows more."""
UNSEEN = {"unseen": True}
"""In place of a body that follows the request and was not shown here."""


def request_tool() -> RegisteredTool:
    return RegisteredTool(HTTP_REQUEST, "requests", lambda _: None, _signatures)


def _signatures(args: Mapping[str, Json]) -> tuple[str, ...]:
    return (f"{NAME}({args['method']} {parse_url(args['url']).signed})",)


def wish_of(agent: Agent, request: HttpRequest) -> CallRequest:
    """In the agent's first project; bound to all of the request, so that what was agreed to is what passes."""
    args: dict[str, Json] = {"method": request.method, "url": request.url}
    if request.target not in ("", request.url):
        args["target"] = request.target
    if request.query_params:
        args["query"] = [list(pair) for pair in request.query_params]
    if request.headers or request.credentials:
        hidden = {name: [HIDDEN] for name, _ in request.credentials}
        args["headers"] = dict(sorted({**_by_name(request.headers), **hidden}.items()))
    if request.credentials:
        args["credentials"] = _by_name(request.credentials)
    if request.body_unseen:
        args["body"] = UNSEEN
    elif request.body:
        args["body"] = _shown(request.body)
    project = next((name for name in agent.projects if name != "*"), "default")
    return CallRequest(agent, NAME, args, project, wait=False)


def _by_name(fields: Iterable[tuple[str, str]]) -> dict[str, Json]:
    by_name: dict[str, Json] = {}
    for name, value in fields:
        by_name.setdefault(name, []).append(value)
    return by_name


def _shown(body: bytes) -> Json:
    """As a person can read it; otherwise by what tells it from any other."""
    try:
        if len(body) <= REQUEST_BODY_SHOWN_BYTES_MAX:
            return body.decode()
    except UnicodeDecodeError:
        pass
    return {"bytes": len(body), "sha256": sha256_hex(body)}
