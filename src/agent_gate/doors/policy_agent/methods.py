"""Methods of a service, found by its descriptor, so that no method of a .proto file can be forgotten."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.panics import told

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Method: TypeAlias = Callable[..., Awaitable[Any]]
"""`(request, context)` of a method that answers once, `(context)` of one that reads and writes a stream of bytes."""

_log = logging.getLogger(__name__)


class Busy(Exception):
    """As much is under way as may be."""


def handlers(service: ServiceDescriptor, methods: Mapping[str, Method], name: str = "") -> grpc.GenericRpcHandler:
    """Every method of the service under its own name, or under that of the service for which it stands."""
    made: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in service.methods:
        implementation = methods[method.name]
        if method.client_streaming:
            made[method.name] = grpc.stream_stream_rpc_method_handler(_streaming(implementation))
        else:
            answering = _answering(implementation, GetMessageClass(method.input_type))
            made[method.name] = grpc.unary_unary_rpc_method_handler(answering)
    return grpc.method_handlers_generic_handler(name or service.full_name, made)


def parsed(message: type[Message], data: bytes) -> Any:
    """InvalidRequest where the bytes are not that message."""
    try:
        return message.FromString(data)
    except DecodeError:
        raise InvalidRequest(f"the bytes are no {message.DESCRIPTOR.name}", suggestion="see the .proto file") from None


def _answering(implementation: Method, message: type[Message]) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def answer(data: bytes, context: Context) -> bytes:
        try:
            made: bytes = (await implementation(parsed(message, data), context)).SerializeToString()
        except Exception as error:
            await _abort(context, error)
        return made

    return answer


def _streaming(implementation: Method) -> Callable[[Any, Context], Awaitable[None]]:
    async def stream(_: Any, context: Context) -> None:
        try:
            await implementation(context)
        except Exception as error:
            await _abort(context, error)

    return stream


async def _abort(context: Context, error: Exception) -> NoReturn:
    """The caller learns what it can mend; the text of anything else may hold a secret."""
    match error:
        case grpc.aio.AbortError():
            raise error
        case InvalidRequest():
            _log.info("refused before any policy: %s", error.problem)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error.problem))
        case Busy():
            _log.info("refused before any policy: %s", error)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        case _:
            _log.error("a method of the policy agent raised %s", told(error))
            await context.abort(grpc.StatusCode.INTERNAL, "the agent itself failed")
