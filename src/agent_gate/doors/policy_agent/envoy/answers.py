"""Answers to Envoy by ext_proc, as its messages hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agent_gate.chain.context import Phase
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.doors.policy_agent.envoy.mapping import Changes, raw_option
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb
from agent_gate.model.bounds import AGENT_PIECE_BYTES


def headers_passed(phase: Phase, changes: Changes | None = None, *, replaces: bool = False) -> pb.ProcessingResponse:
    """With a body in place of the one that there is not, where `replaces` says so."""
    common = pb.CommonResponse()
    if changes is not None:
        _change_headers(common, changes)
        if replaces and changes.body is not None:
            common.status = pb.CommonResponse.CONTINUE_AND_REPLACE
            _change_body(common, changes.body)
    answer = pb.HeadersResponse(response=common)
    if phase is Phase.REQUEST:
        return pb.ProcessingResponse(request_headers=answer)
    return pb.ProcessingResponse(response_headers=answer)


def body_passed(phase: Phase, changes: Changes | None = None) -> pb.ProcessingResponse:
    """Of a body that Envoy has kept, or lets on as it comes."""
    common = pb.CommonResponse()
    if changes is not None:
        _change_headers(common, changes)
        if changes.body is not None:
            _change_body(common, changes.body)
    return _body_response(phase, common)


def body_pieces(phase: Phase, body: bytes, *, ends: bool) -> Iterator[pb.ProcessingResponse]:
    """Of a body that Envoy has only from us; one that is empty is told where the message ends with it."""
    last = max(len(body) - 1, 0) // AGENT_PIECE_BYTES if body or ends else -1
    for number in range(last + 1):
        piece = body[number * AGENT_PIECE_BYTES : (number + 1) * AGENT_PIECE_BYTES]
        streamed = pb.StreamedBodyResponse(body=piece, end_of_stream=ends and number == last)
        mutation = pb.BodyMutation(streamed_response=streamed)
        yield _body_response(phase, pb.CommonResponse(body_mutation=mutation))


def trailers_passed(phase: Phase) -> pb.ProcessingResponse:
    if phase is Phase.REQUEST:
        return pb.ProcessingResponse(request_trailers=pb.TrailersResponse())
    return pb.ProcessingResponse(response_trailers=pb.TrailersResponse())


def answered(answer: ImmediateResponse) -> pb.ProcessingResponse:
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


def _body_response(phase: Phase, common: pb.CommonResponse) -> pb.ProcessingResponse:
    answer = pb.BodyResponse(response=common)
    if phase is Phase.REQUEST:
        return pb.ProcessingResponse(request_body=answer)
    return pb.ProcessingResponse(response_body=answer)


def _change_headers(common: pb.CommonResponse, changes: Changes) -> None:
    if changes.set_headers or changes.removed_headers:
        common.header_mutation.set_headers.extend(raw_option(name, value) for name, value in changes.set_headers)
        common.header_mutation.remove_headers.extend(changes.removed_headers)


def _change_body(common: pb.CommonResponse, body: bytes) -> None:
    if body:
        common.body_mutation.body = body
    else:
        common.body_mutation.clear_body = True
