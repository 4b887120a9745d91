"""The one place where codes of problems become what a door says: exit codes, HTTP statuses, errors of JSON-RPC."""

from __future__ import annotations

from enum import IntEnum

from agent_gate.model.errors import GateError, Problem
from agent_gate.model.outcome import PENDING, SUCCESS, Outcome, Status
from agent_gate.model.verdict import Decision


class Exit(IntEnum):
    SUCCESS = 0
    DENIED = 1
    USAGE = 2
    ERROR = 3
    WAITING = 4
    """An approval is pending, or expired."""
    UNREACHABLE = 5
    MISMATCH = 6
    """Verification or replay found a difference."""
    INTERRUPTED = 130
    """By the person at the keyboard, as shells have it."""


class Unreachable(GateError):
    """A server that does not answer, or an address that cannot be listened on."""

    default_code = 2006


_BY_CODE = {
    1016: Exit.WAITING,
    4001: Exit.ERROR,
    5001: Exit.UNREACHABLE,
    5004: Exit.MISMATCH,
    6003: Exit.DENIED,
}
_BY_FAMILY = {1: Exit.DENIED, 4: Exit.MISMATCH}


def exit_of_problem(problem: Problem) -> Exit:
    return _BY_CODE.get(problem.code) or _BY_FAMILY.get(problem.code // 1000, Exit.ERROR)


def exit_of_outcome(outcome: Outcome) -> Exit:
    if outcome.status is Status.SUCCESS:
        return Exit.SUCCESS
    if outcome.status in (Status.PENDING_APPROVAL, Status.EXPIRED):
        return Exit.WAITING
    return exit_of_problem(outcome.error) if outcome.error else Exit.ERROR


def exit_of_decision(decision: Decision) -> Exit:
    return {Decision.ALLOW: Exit.SUCCESS, Decision.ASK: Exit.WAITING, Decision.DENY: Exit.DENIED}[decision]


_HTTP_BY_CODE = {1006: 413, 1016: 409, 2003: 409, 4001: 404, 6002: 401}
_HTTP_BY_FAMILY = {1: 403, 2: 400, 3: 400, 4: 409, 5: 503, 6: 403}


def http_status_of_problem(problem: Problem) -> int:
    """For a request that could not be taken; a call that was taken answers 200 with its outcome, however it ended."""
    return _HTTP_BY_CODE.get(problem.code) or _HTTP_BY_FAMILY[problem.code // 1000]


def http_status_of_outcome(outcome: Outcome) -> int:
    return 202 if outcome.status is Status.PENDING_APPROVAL else 200


class Rpc(IntEnum):
    """Codes of JSON-RPC 2.0, and those that the WebSocket door adds."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    UNKNOWN_METHOD = -32601
    INVALID_PARAMS = -32602
    INTERNAL = -32603
    DENIED_BY_PERSON = -32001
    EXPIRED = -32002
    DENIED = -32003
    FAILED = -32004
    NOT_AUTHENTICATED = -32005
    TOO_MANY = -32006


_RPC_BY_CODE = {
    1012: Rpc.TOO_MANY,
    1015: Rpc.DENIED_BY_PERSON,
    1016: Rpc.EXPIRED,
    6002: Rpc.NOT_AUTHENTICATED,
    6003: Rpc.DENIED,
}
_RPC_BY_FAMILY = {1: Rpc.DENIED, 3: Rpc.INVALID_PARAMS}


def rpc_of_problem(problem: Problem) -> Rpc:
    return _RPC_BY_CODE.get(problem.code) or _RPC_BY_FAMILY.get(problem.code // 1000, Rpc.FAILED)


def rpc_of_outcome(outcome: Outcome) -> Rpc | None:
    """None where the outcome is an answer and no error."""
    if outcome.status is SUCCESS or outcome.status is PENDING:
        return None
    if outcome.error:
        return rpc_of_problem(outcome.error)
    return {Status.DENIED: Rpc.DENIED, Status.EXPIRED: Rpc.EXPIRED}.get(outcome.status, Rpc.FAILED)


def mcp_error_of_outcome(outcome: Outcome) -> Rpc | None:
    """None where MCP tells the outcome as the result of a tool, however it ended."""
    return Rpc.INVALID_PARAMS if outcome.error and outcome.error.code == 2001 else None
