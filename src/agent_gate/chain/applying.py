"""Applies what one policy asks for to the context: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.headers import Fields, Headers
from agent_gate.chain.instruction import (
    Continue,
    ImmediateResponse,
    Instruction,
    RemoveHeader,
    SetBody,
    SetHeader,
    SetState,
)
from agent_gate.chain.state import State
from agent_gate.model.bounds import CHAIN_HEADERS_BYTES_MAX, CHAIN_HEADERS_MAX, CHAIN_INSTRUCTIONS_MAX


def applied(
    context: RequestContext,
    instructions: Sequence[Instruction],
    warnings: list[str],
    *,
    body_bytes_max: int,
    state_bytes_max: int,
) -> RequestContext:
    """The context after the instructions; InstructionError leaves the given one as it was.

    What is odd but does no harm goes to the warnings.
    """
    if len(instructions) > CHAIN_INSTRUCTIONS_MAX:
        raise InstructionError(f"more than {CHAIN_INSTRUCTIONS_MAX} instructions", suggestion="return fewer")
    fields: Fields | None = None
    values: dict[str, bytes] | None = None
    body = context.body
    for instruction in instructions:
        match instruction:
            case SetHeader(key, value):
                fields = context.headers.fields() if fields is None else fields
                fields[key.lower()] = ((key, value),)
            case RemoveHeader(key):
                fields = context.headers.fields() if fields is None else fields
                if fields.pop(key.lower(), None) is None:
                    warnings.append(f"REMOVE_HEADER of `{key}`, which is not there")
            case SetBody(body):
                _check_body(body, body_bytes_max)
            case SetState(key, encoded):
                values = context.state.encoded() if values is None else values
                values[key] = encoded
            case ImmediateResponse() as response:
                _check_body(response.body, body_bytes_max)
            case Continue():
                pass
            case _:
                assert_never(instruction)
    headers = context.headers if fields is None else _checked_headers(fields)
    state = context.state if values is None else _checked_state(values, state_bytes_max)
    if headers is context.headers and state is context.state and body is context.body:
        return context
    return context.with_changes(headers, body, state)


def _checked_headers(fields: Fields) -> Headers:
    headers = Headers.of_fields(fields)
    if len(headers) > CHAIN_HEADERS_MAX or headers.size_bytes() > CHAIN_HEADERS_BYTES_MAX:
        raise InstructionError(
            f"more than {CHAIN_HEADERS_MAX} headers or {CHAIN_HEADERS_BYTES_MAX} bytes of them",
            suggestion="set fewer or shorter ones",
        )
    return headers


def _checked_state(values: dict[str, bytes], bytes_max: int) -> State:
    state = State.of_encoded(values)
    size = state.size_bytes()
    if size > bytes_max:
        raise InstructionError(
            f"state size exceeds limit: {size} > {bytes_max}", suggestion="keep less, or raise max_state_size"
        )
    return state


def _check_body(body: bytes, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise InstructionError(
            f"body size exceeds limit: {len(body)} > {bytes_max}", suggestion="send less, or raise max_body_size"
        )
