"""The agent's messages as the chain knows them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.instruction import (
    Continue,
    ImmediateResponse,
    Instruction,
    RemoveHeader,
    SetBody,
    SetHeader,
    SetState,
)
from agent_gate.chain.policy import PolicyInfo, StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.structs import fields_of, fill
from agent_gate.model.codec import canonical

_PHASES: Mapping[pb.Phase, Phase] = {pb.REQUEST: Phase.REQUEST, pb.RESPONSE: Phase.RESPONSE}
_CODES: Mapping[StatusCode, pb.Status.Code] = {
    StatusCode.OK: pb.Status.OK,
    StatusCode.POLICY_DENIED: pb.Status.POLICY_DENIED,
    StatusCode.POLICY_ERROR: pb.Status.POLICY_ERROR,
    StatusCode.TIMEOUT: pb.Status.TIMEOUT,
}


def phase_of(request: pb.PolicyRequest) -> Phase:
    try:
        return _PHASES[request.phase]
    except KeyError:
        raise InvalidRequest("the phase is missing or unknown", suggestion="send REQUEST or RESPONSE") from None


def context_of(request: pb.PolicyRequest, phase: Phase) -> RequestContext:
    given = request.context
    return RequestContext.create(
        method=given.method,
        path=given.path,
        scheme=given.scheme,
        authority=given.authority,
        query_params=[(param.name, param.value) for param in given.query_params],
        client_ip=given.client_ip,
        headers=[(header.name, header.value) for header in given.headers],
        body=given.body,
        state=fields_of(given.state) if given.HasField("state") else None,
        phase=phase,
        # 0 is what protobuf has for nothing.
        response_status=given.response_status or None,
        raw_query=given.raw_query.decode("latin-1") if given.HasField("raw_query") else None,
        body_unseen=given.body_unseen,
    )


def ref_of(ref: pb.PolicyRef) -> PolicyRef:
    return PolicyRef(ref.name, fields_of(ref.metadata), ref.on_failure, ref.version)


def response_of(response: Response) -> pb.PolicyResponse:
    made = pb.PolicyResponse(request_id=response.request_id)
    try:
        for instruction in response.instructions:
            _fill(made.instructions.add(), instruction)
        status = made.status
        status.code = _CODES[response.status]
        status.message = response.message
        status.policy_name = response.policy_name
        if response.metadata:
            made.metadata.update(response.metadata)
    except (TypeError, ValueError):
        return refusal(response.request_id, "what a policy said cannot be sent")
    return made


def refusal(request_id: str, message: str) -> pb.PolicyResponse:
    return pb.PolicyResponse(request_id=request_id, status=pb.Status(code=pb.Status.POLICY_ERROR, message=message))


def _fill(sent: pb.Instruction, instruction: Instruction) -> None:
    match instruction:
        case SetHeader():
            header = sent.set_header
            header.name = instruction.key
            header.value = instruction.value
        case RemoveHeader():
            sent.remove_header.name = instruction.key
        case SetBody():
            sent.set_body.body = instruction.body
        case SetState():
            sent.set_state.key = instruction.key
            fill(sent.set_state.value, instruction.value)
        case ImmediateResponse():
            answer = sent.immediate_response
            answer.status_code = instruction.status
            answer.body = instruction.body
            for name, value in instruction.headers:
                answer.headers.add(name=name, value=value)
        case Continue():
            getattr(sent, "continue").SetInParent()
        case _:
            assert_never(instruction)


def info_of(info: PolicyInfo) -> pb.PolicyInfo:
    return pb.PolicyInfo(
        name=info.name,
        version=info.version,
        description=info.description,
        supported_phases=[number for number, phase in _PHASES.items() if phase in info.phases],
        metadata_schema=canonical(info.metadata_schema).decode(),
    )
