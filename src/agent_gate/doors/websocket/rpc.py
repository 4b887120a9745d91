"""JSON-RPC 2.0 as text: requests read strictly, answers written once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from agent_gate.doors.codes import Rpc, rpc_of_outcome, rpc_of_problem
from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import SUCCESS, Outcome
from agent_gate.model.tool import Json


class Request(Struct, frozen=True):
    method: str
    params: Mapping[str, Json]
    id: str | int | None = None
    is_notification: bool = False
    """Without an id: taken like any other, and not answered."""


class RpcError(Exception):
    """An error in place of a result; `data` is the outcome where there is one."""

    def __init__(self, code: Rpc, message: str, data: Json = None, id: str | int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data, self.id = code, message, data, id

    @classmethod
    def of(cls, problem: Problem) -> RpcError:
        return cls(rpc_of_problem(problem), str(problem), {"error": problem.to_json()})


def read(text: str | bytes) -> Request:
    """The request in a message; RpcError where there is none."""
    try:
        message = parse(text)
    except CodecError as error:
        raise RpcError(Rpc.PARSE_ERROR, str(error)) from None
    if type(message) is not dict:
        what = "batches are not taken" if isinstance(message, list) else "a request is an object"
        raise RpcError(Rpc.INVALID_REQUEST, f"{what}; send one request in each message")
    request_id = message.get("id")
    if not _is_id(request_id):
        raise RpcError(
            Rpc.INVALID_REQUEST, f"`id` must be a text of at most {IDENTIFIER_CHARS_MAX} characters, an integer or null"
        )
    method = message.get("method")
    if message.get("jsonrpc") != "2.0" or type(method) is not str:
        raise RpcError(Rpc.INVALID_REQUEST, 'a request has `"jsonrpc": "2.0"` and a `method`', id=request_id)
    params = message.get("params", {})
    if type(params) is not dict:
        raise RpcError(Rpc.INVALID_PARAMS, "`params` must be an object: parameters are given by name", id=request_id)
    return Request(method, params, request_id, "id" not in message)


def _is_id(value: Json) -> bool:
    return type(value) is int or value is None or (type(value) is str and len(value) <= IDENTIFIER_CHARS_MAX)


def result(id: str | int | None, value: Json) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": value})


def error(id: str | int | None, refused: RpcError) -> bytes:
    told: dict[str, Any] = {"code": int(refused.code), "message": refused.message}
    if refused.data is not None:
        told["data"] = refused.data
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "error": told})


def outcome(id: str | int | None, reached: Outcome) -> bytes:
    """Encode the end of a call: a result where that is an answer, an error with the outcome as its data otherwise."""
    code = None if reached.status is SUCCESS else rpc_of_outcome(reached)
    if code is None:
        return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": reached.to_json()})
    message = str(reached.error) if reached.error else reached.status.value
    return error(id, RpcError(code, message, reached.to_json()))


def notification(method: str, params: Json) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})
