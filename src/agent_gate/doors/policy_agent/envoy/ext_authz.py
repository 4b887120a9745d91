"""Envoy's external authorization: one question for each request, before it goes on."""

from __future__ import annotations

from agent_gate.chain.context import Phase
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.doors.policy_agent.envoy.kernel import Kernel, Way, refused_as_invalid
from agent_gate.doors.policy_agent.envoy.mapping import (
    Changes,
    Request,
    changes_of,
    fields_of,
    text_option,
    without_other_hosts,
    without_pseudo,
)
from agent_gate.doors.policy_agent.envoy.refusals import refusal
from agent_gate.doors.policy_agent.methods import Context
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb

NAME = "envoy.service.auth.v3.Authorization"
SERVICE = pb.DESCRIPTOR.services_by_name["Authorization"]

_PERMISSION_DENIED = 7
_PARTIAL = "x-envoy-auth-partial-body"
_RESPONSES_UNSEEN = "the chain has policies for responses, which ext_authz never shows: use ext_proc"
_BODY_UNSEEN = "Envoy does not show the whole body to the policies: set with_request_body of ext_authz"
_BODY_UNCHANGEABLE = "a policy changes the body, which ext_authz cannot do: use ext_proc"


class Authorization:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def check(self, message: pb.CheckRequest, _: Context) -> pb.CheckResponse:
        attributes = message.attributes
        http = attributes.request.http
        body = http.raw_body or http.body.encode()
        try:
            request = _request(attributes)
        except InvalidRequest as error:
            return _denied(refused_as_invalid(error, Phase.REQUEST))
        way = self._kernel.way(request, attributes.context_extensions.get("route", ""))
        if isinstance(way, Way):
            way = _unfit(way, request, body) or way
        if isinstance(way, ImmediateResponse):
            return _denied(way)
        try:
            context = request.context(body, body_unseen=_is_body_missing(request, body))
        except InvalidRequest as error:
            return _denied(refused_as_invalid(error, way.request.phase))
        judged = await self._kernel.judge(way.request, context, request.id)
        if isinstance(judged, ImmediateResponse):
            return _denied(judged)
        changes = changes_of(judged.instructions, ())
        return _denied(refusal(500, _BODY_UNCHANGEABLE)) if changes.body is not None else _passed(changes)


def _unfit(way: Way, request: Request, body: bytes) -> ImmediateResponse | None:
    """Refuse where the chain would have to see what it cannot."""
    if way.response.steps:
        return refusal(500, _RESPONSES_UNSEEN)
    if way.bodies and way.request.steps and _is_body_missing(request, body):
        return refusal(500, _BODY_UNSEEN)
    return None


def _is_body_missing(request: Request, body: bytes) -> bool:
    headers = {name.lower(): value for name, value in request.headers}
    if headers.get(_PARTIAL) == "true":
        return True
    announced = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return announced and not body


def _request(attributes: pb.AttributeContext) -> Request:
    http = attributes.request.http
    fields = fields_of(http.header_map.headers) or list(http.headers.items())
    return Request(
        http.method,
        http.path,
        http.scheme,
        http.host,
        attributes.source.address.socket_address.address,
        without_other_hosts(without_pseudo(fields), http.host),
    )


def _passed(changes: Changes) -> pb.CheckResponse:
    return pb.CheckResponse(
        status=pb.RpcStatus(code=0),
        ok_response=pb.OkHttpResponse(
            headers=[text_option(name, value) for name, value in changes.set_headers],
            headers_to_remove=changes.removed_headers,
        ),
    )


def _denied(answer: ImmediateResponse) -> pb.CheckResponse:
    return pb.CheckResponse(
        status=pb.RpcStatus(code=_PERMISSION_DENIED),
        denied_response=pb.DeniedHttpResponse(
            status=pb.HttpStatus(code=answer.status),
            headers=[text_option(name, value) for name, value in answer.headers],
            body=answer.body.decode(errors="replace"),
        ),
    )
