"""One request with its response, as Envoy shows it by ext_proc: what was seen, what is kept, what was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import Field
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.prepared import Chain
from agent_gate.chain.state import State
from agent_gate.doors.policy_agent.envoy.answers import (
    answered,
    body_passed,
    body_pieces,
    headers_passed,
    trailers_passed,
)
from agent_gate.doors.policy_agent.envoy.directions import Act, Event, Holding, Stage, move
from agent_gate.doors.policy_agent.envoy.kernel import Kernel, Way, refused_as_invalid
from agent_gate.doors.policy_agent.envoy.mapping import (
    Changes,
    Request,
    changes_of,
    fields_of,
    request_of,
    status_of,
    without_pseudo,
)
from agent_gate.doors.policy_agent.envoy.refusals import refusal, too_large
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb

_DUPLEX, _BUFFERED = pb.ProcessingMode.FULL_DUPLEX_STREAMED, pb.ProcessingMode.BUFFERED

_OUT_OF_ORDER = "a part of a message that no policy has seen the rest of"
_UNHELD_BODY = (
    "Envoy does not hold the body back for the policies: set the body modes of ext_proc to FULL_DUPLEX_STREAMED, or "
    "`bodies: false` for the route"
)
_UNSURE_BODY = (
    "Envoy would not show a message of unknown length that has no body: set the body modes of ext_proc to "
    "FULL_DUPLEX_STREAMED"
)
_UPGRADE = "an upgraded connection cannot be held back for the policies: its route needs `bodies: false`"


@dataclass(slots=True)
class _Direction:
    phase: Phase
    mode: int = pb.ProcessingMode.NONE
    """In which Envoy sends bodies."""
    stage: Stage = Stage.UNSEEN
    fields: Sequence[Field] = ()
    body: bytearray = field(default_factory=bytearray)
    passed: bool = False
    """True once its chain has run and let it pass."""


class Exchange:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._request_side, self._response_side = _Direction(Phase.REQUEST), _Direction(Phase.RESPONSE)
        self._way: Way | None = None
        self._request: Request | None = None
        self._status = 0
        self._state = State()
        self._refused: ImmediateResponse | None = None

    @property
    def is_settled(self) -> bool:
        """True where nothing waits here for a word on it."""
        return not any(side.stage in (Stage.KEPT, Stage.DUE) for side in (self._request_side, self._response_side))

    def close(self) -> None:
        for side in (self._request_side, self._response_side):
            self._forget(side)

    async def answers(self, message: pb.ProcessingRequest) -> list[pb.ProcessingResponse]:
        """None while the message is kept; InvalidRequest for one that is not known here, which ends the stream."""
        if message.observability_mode:
            raise InvalidRequest("Envoy only looks on, and waits for nobody", suggestion="turn observability_mode off")
        if message.HasField("protocol_config"):
            self._request_side.mode = message.protocol_config.request_body_mode
            self._response_side.mode = message.protocol_config.response_body_mode
        side, event = self._shown(message)
        problem = self._refused or self._opened(side, event, message)
        if problem is not None:
            return self._refuse(problem)
        act, stage = move(side.stage, event, self._holding(side))
        if act is Act.REFUSE:
            return self._refuse(self._why(side, event))
        side.stage = stage
        return await self._done(act, side, event, _body_of(message))

    def _shown(self, message: pb.ProcessingRequest) -> tuple[_Direction, Event]:
        match message.WhichOneof("request"):
            case "request_headers":
                return self._request_side, _headers_event(message.request_headers)
            case "request_body":
                return self._request_side, _body_event(message.request_body)
            case "request_trailers":
                return self._request_side, Event.TRAILERS
            case "response_headers":
                return self._response_side, _headers_event(message.response_headers)
            case "response_body":
                return self._response_side, _body_event(message.response_body)
            case "response_trailers":
                return self._response_side, Event.TRAILERS
            case _:
                raise InvalidRequest("a message of ext_proc that is not known here", suggestion="see the .proto file")

    def _opened(self, side: _Direction, event: Event, message: pb.ProcessingRequest) -> ImmediateResponse | None:
        """Reads the headers that a direction begins with; what is wrong with them, or with their place."""
        if event not in (Event.HEADERS, Event.LAST_HEADERS):
            return None
        if side.stage is not Stage.UNSEEN:
            raise InvalidRequest("second headers of one message", suggestion="open a stream for each request")
        if side.phase is Phase.REQUEST:
            return self._open_request(message)
        return self._open_response(fields_of(message.response_headers.headers.headers))

    def _open_request(self, message: pb.ProcessingRequest) -> ImmediateResponse | None:
        attributes = _attributes(message)
        try:
            self._request = request_of(message.request_headers, attributes.get("source.address", ""))
        except InvalidRequest as error:
            return refused_as_invalid(error, Phase.REQUEST)
        found = self._kernel.way(self._request, attributes.get("xds.route_name", ""))
        if isinstance(found, ImmediateResponse):
            return found
        self._way = found
        self._request_side.fields = self._request.headers
        return None

    def _open_response(self, fields: Sequence[Field]) -> ImmediateResponse | None:
        status = status_of(fields)
        if not self._request_side.passed:
            # Envoy's own refusal of a request comes by here as well: its status may be told, and nothing else.
            told = status if status is not None and 400 <= status < 600 else 500
            return refusal(told, "refused before any policy has seen the whole request")
        if status is None:
            return refusal(502, "the response has no status")
        self._status, self._response_side.fields = status, without_pseudo(fields)
        return None

    def _holding(self, side: _Direction) -> Holding:
        if self._way is None or not self._way.bodies or not self._chain(side).steps:
            return Holding.NOBODY
        if self._request is not None and self._request.is_upgrade:
            return Holding.IMPOSSIBLE
        if side.mode == _DUPLEX:
            return Holding.AGENT
        return Holding.ENVOY if side.mode == _BUFFERED and _announces_body(side.fields) else Holding.IMPOSSIBLE

    def _why(self, side: _Direction, event: Event) -> ImmediateResponse:
        if event is not Event.HEADERS or self._request is None:
            return refusal(500, _OUT_OF_ORDER)
        if self._request.is_upgrade:
            return refusal(403, _UPGRADE)
        status = 500 if side.phase is Phase.REQUEST else 502
        return refusal(status, _UNSURE_BODY if side.mode == _BUFFERED else _UNHELD_BODY)

    async def _done(self, act: Act, side: _Direction, event: Event, body: bytes) -> list[pb.ProcessingResponse]:
        match act:
            case Act.KEEP:
                return self._keep(side, body)
            case Act.AWAIT_BODY:
                return [headers_passed(side.phase)]
            case Act.JUDGE:
                return self._keep(side, body) or await self._judge(side, event)
            case Act.LET_ON:
                return list(_passed_on(side, event, body))
            case Act.REFUSE:
                raise AssertionError("refused before")
            case _:
                assert_never(act)

    def _keep(self, side: _Direction, body: bytes) -> list[pb.ProcessingResponse]:
        """Nothing to say; or that it is too much."""
        if len(side.body) + len(body) > self._kernel.body_bytes_max:
            return self._refuse(too_large(side.phase))
        if not self._kernel.room.take(len(body)):
            return self._refuse(refusal(503, "too much is under way"))
        side.body += body
        return []

    async def _judge(self, side: _Direction, event: Event) -> list[pb.ProcessingResponse]:
        judged = await self._run(side, unseen=event is Event.HEADERS)
        if isinstance(judged, ImmediateResponse):
            return self._refuse(judged)
        self._state, side.passed = judged.context.state, True
        changes = changes_of(judged.instructions, side.fields)
        body = bytes(side.body) if changes.body is None else changes.body
        self._forget(side)
        return list(_let_on(side, event, changes, body))

    async def _run(self, side: _Direction, *, unseen: bool) -> Response | ImmediateResponse:
        assert self._request is not None
        try:
            context = self._context(self._request, side, unseen)
        except InvalidRequest as error:
            return refused_as_invalid(error, side.phase)
        return await self._kernel.judge(self._chain(side), context, self._request.id)

    def _context(self, request: Request, side: _Direction, unseen: bool) -> RequestContext:
        body = bytes(side.body)
        if side.phase is Phase.REQUEST:
            return request.context(body, body_unseen=unseen)
        return request.response_context(self._status, side.fields, body, self._state)

    def _chain(self, side: _Direction) -> Chain:
        assert self._way is not None
        return self._way.request if side.phase is Phase.REQUEST else self._way.response

    def _refuse(self, answer: ImmediateResponse) -> list[pb.ProcessingResponse]:
        """Nothing of the exchange passes from now on, whatever comes."""
        self._refused = answer
        for side in (self._request_side, self._response_side):
            side.stage = Stage.OVER
            self._forget(side)
        return [answered(answer)]

    def _forget(self, side: _Direction) -> None:
        self._kernel.room.give_back(len(side.body))
        side.body = bytearray()


def _let_on(side: _Direction, event: Event, changes: Changes, body: bytes) -> Iterator[pb.ProcessingResponse]:
    """Answer for what was judged with its changes: to the headers, to the body that Envoy keeps, or in place of all."""
    if event in (Event.HEADERS, Event.LAST_HEADERS):
        yield headers_passed(side.phase, changes, replaces=True)
    elif side.mode == _DUPLEX:
        yield headers_passed(side.phase, changes)
        yield from body_pieces(side.phase, body, ends=event is Event.LAST_BODY)
        if event is Event.TRAILERS:
            yield trailers_passed(side.phase)
    else:
        yield body_passed(side.phase, changes)


def _passed_on(side: _Direction, event: Event, body: bytes) -> Iterator[pb.ProcessingResponse]:
    if event is Event.TRAILERS:
        yield trailers_passed(side.phase)
    elif side.mode == _DUPLEX:
        yield from body_pieces(side.phase, body, ends=event is Event.LAST_BODY)
    else:
        yield body_passed(side.phase)


def _headers_event(headers: pb.HttpHeaders) -> Event:
    return Event.LAST_HEADERS if headers.end_of_stream else Event.HEADERS


def _body_event(body: pb.HttpBody) -> Event:
    return Event.LAST_BODY if body.end_of_stream else Event.BODY


def _body_of(message: pb.ProcessingRequest) -> bytes:
    return message.request_body.body or message.response_body.body


def _announces_body(fields: Sequence[Field]) -> bool:
    """Tell whether a body of at least one byte must come, or the message is broken off."""
    lengths = [value for name, value in fields if name.lower() == "content-length"]
    return len(lengths) == 1 and lengths[0].isascii() and lengths[0].isdigit() and int(lengths[0][:20]) > 0


def _attributes(message: pb.ProcessingRequest) -> dict[str, str]:
    """Those of `request_attributes` in the configuration of the filter that are text."""
    return {name: value.string_value for struct in message.attributes.values() for name, value in struct.fields.items()}
