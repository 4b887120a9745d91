"""Envoy's external processing: one stream for each request, with its response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import grpc.aio

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import Phase
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import Field
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.state import State
from agent_gate.doors.policy_agent.envoy.kernel import Kernel, Way, refused_as_invalid
from agent_gate.doors.policy_agent.envoy.mapping import (
    Changes,
    Request,
    changes_of,
    fields_of,
    host_of,
    raw_option,
    without_pseudo,
)
from agent_gate.doors.policy_agent.envoy.refusals import refusal
from agent_gate.doors.policy_agent.methods import Context, parsed
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb

NAME = "envoy.service.ext_proc.v3.ExternalProcessor"
SERVICE = pb.DESCRIPTOR.services_by_name["ExternalProcessor"]

_BUFFERED = pb.ProcessingMode.BUFFERED
_UNHELD_BODY = "Envoy does not hold the body back for the policies: set the body modes of ext_proc to BUFFERED"


class ExternalProcessor:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def process(self, context: Context) -> None:
        """Answers until Envoy has no more to ask.

        It never ends a stream by itself: to Envoy a stream that ends well is leave to go on without us.
        """
        exchange = _Exchange(self._kernel)
        while (data := await context.read()) is not grpc.aio.EOF:
            answer = await exchange.answer(parsed(pb.ProcessingRequest, data))
            await context.write(answer.SerializeToString())


class _Exchange:
    """What is known of one request and its response."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._modes = pb.ProtocolConfiguration()
        self._way: Way | None = None
        self._request: Request | None = None
        self._state = State()
        self._request_passed = False
        self._body_due: Phase | None = None
        """The phase whose chain runs when the body is there."""
        self._response: tuple[int, list[Field]] = (0, [])

    async def answer(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        if message.HasField("protocol_config"):
            self._modes = message.protocol_config
        match message.WhichOneof("request"):
            case "request_headers":
                return await self._on_request_headers(message)
            case "request_body":
                return await self._on_body(Phase.REQUEST, message.request_body.body)
            case "request_trailers":
                return pb.ProcessingResponse(request_trailers=pb.TrailersResponse())
            case "response_headers":
                return await self._on_response_headers(message.response_headers)
            case "response_body":
                return await self._on_body(Phase.RESPONSE, message.response_body.body)
            case "response_trailers":
                return pb.ProcessingResponse(response_trailers=pb.TrailersResponse())
            case _:
                raise InvalidRequest("a message of ext_proc that is not known here", suggestion="see the .proto file")

    async def _on_request_headers(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        if self._request is not None:
            raise InvalidRequest("a second request on one stream", suggestion="open a stream for each")
        attributes = _attributes(message)
        self._request = _request(message.request_headers, attributes.get("source.address", ""))
        found = self._kernel.way(self._request, attributes.get("xds.route_name", ""))
        if isinstance(found, ImmediateResponse):
            return _answer(found)
        self._way = found
        held = self._modes.request_body_mode == _BUFFERED
        return await self._on_headers(Phase.REQUEST, held=held, ended=message.request_headers.end_of_stream)

    async def _on_response_headers(self, headers: pb.HttpHeaders) -> pb.ProcessingResponse:
        fields = fields_of(headers.headers.headers)
        status = _status(fields)
        if not self._request_passed:
            # Envoy's own refusal of a request comes by here as well: its status may be told, and nothing else.
            told = status if status is not None and 400 <= status < 600 else 500
            return _answer(refusal(told, "refused before any policy has seen the whole request"))
        if status is None:
            return _answer(refusal(502, "the response has no status"))
        self._response = status, without_pseudo(fields)
        held = self._modes.response_body_mode == _BUFFERED
        return await self._on_headers(Phase.RESPONSE, held=held, ended=headers.end_of_stream)

    async def _on_headers(self, phase: Phase, *, held: bool, ended: bool) -> pb.ProcessingResponse:
        assert self._way is not None
        chain = self._way.request if phase is Phase.REQUEST else self._way.response
        if ended or not self._way.bodies or not chain.steps:
            return await self._judged(phase, b"", has_body_message=False)
        if not held:
            return _answer(refusal(500, _UNHELD_BODY))
        self._body_due = phase
        return _passed(phase, pb.CommonResponse(), has_body_message=False)

    async def _on_body(self, phase: Phase, body: bytes) -> pb.ProcessingResponse:
        """What is held back comes in one piece."""
        if self._body_due is phase:
            self._body_due = None
            return await self._judged(phase, body, has_body_message=True)
        if not self._request_passed:
            return _answer(refusal(500, "a body without headers that a policy has seen"))
        return _passed(phase, pb.CommonResponse(), has_body_message=True)

    async def _judged(self, phase: Phase, body: bytes, *, has_body_message: bool) -> pb.ProcessingResponse:
        judged = await self._run(phase, body)
        if isinstance(judged, ImmediateResponse):
            return _answer(judged)
        self._state = judged.context.state
        self._request_passed = True
        assert self._request is not None
        given = self._request.headers if phase is Phase.REQUEST else self._response[1]
        return _passed(phase, _common(changes_of(judged.instructions, given), has_body_message), has_body_message)

    async def _run(self, phase: Phase, body: bytes) -> Response | ImmediateResponse:
        assert self._way is not None
        assert self._request is not None
        try:
            if phase is Phase.REQUEST:
                chain, context = self._way.request, self._request.context(body)
            else:
                chain, context = self._way.response, self._request.response_context(*self._response, body, self._state)
        except InvalidRequest as error:
            return refused_as_invalid(error, phase)
        return await self._kernel.judge(chain, context, self._request.id)


def _attributes(message: pb.ProcessingRequest) -> dict[str, str]:
    """Those of `request_attributes` in the configuration of the filter that are text."""
    return {name: value.string_value for struct in message.attributes.values() for name, value in struct.fields.items()}


def _request(headers: pb.HttpHeaders, source: str) -> Request:
    fields = fields_of(headers.headers.headers)
    pseudo = {name: value for name, value in fields if name.startswith(":")}
    return Request(
        pseudo.get(":method", ""),
        pseudo.get(":path", ""),
        pseudo.get(":scheme", ""),
        pseudo.get(":authority", ""),
        host_of(source),
        without_pseudo(fields),
    )


def _status(fields: Sequence[Field]) -> int | None:
    text = next((value for name, value in fields if name == ":status"), "")
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else None


def _common(changes: Changes, has_body_message: bool) -> pb.CommonResponse:
    common = pb.CommonResponse()
    if changes.set_headers or changes.removed_headers:
        common.header_mutation.set_headers.extend(raw_option(name, value) for name, value in changes.set_headers)
        common.header_mutation.remove_headers.extend(changes.removed_headers)
    if changes.body is not None:
        if not has_body_message:
            common.status = pb.CommonResponse.CONTINUE_AND_REPLACE
        if changes.body:
            common.body_mutation.body = changes.body
        else:
            common.body_mutation.clear_body = True
    return common


def _passed(phase: Phase, common: pb.CommonResponse, has_body_message: bool) -> pb.ProcessingResponse:
    match phase, has_body_message:
        case Phase.REQUEST, False:
            return pb.ProcessingResponse(request_headers=pb.HeadersResponse(response=common))
        case Phase.REQUEST, True:
            return pb.ProcessingResponse(request_body=pb.BodyResponse(response=common))
        case Phase.RESPONSE, False:
            return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=common))
        case _:
            return pb.ProcessingResponse(response_body=pb.BodyResponse(response=common))


def _answer(answer: ImmediateResponse) -> pb.ProcessingResponse:
    """One header that comes once replaces what Envoy would say; the values of one that repeats are added."""
    names = Counter(name.lower() for name, _ in answer.headers)
    mutation = pb.HeaderMutation(
        set_headers=[raw_option(name, value, adds=names[name.lower()] > 1) for name, value in answer.headers]
    )
    return pb.ProcessingResponse(
        immediate_response=pb.ImmediateResponse(
            status=pb.HttpStatus(code=answer.status), headers=mutation, body=answer.body, details="agent_gate"
        )
    )
