"""Raw messages of a door, fed to the decoder of the doors and to a real door; both must agree on what is a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX, JSON_DEPTH_MAX, MESSAGE_BYTES_MAX
from agent_gate.model.codec import CodecError, parse
from tests.attacks.cases import Case
from tests.attacks.door_cases import door_for, expect_refusal, in_our_words
from tests.attacks.runner import CheckFailed

CHECKS: frozenset[str] = frozenset()

_TOKEN = "token-of-the-agent-in-json-cases"
_METHODS = {"tool.call": "tool_request"}
"""The method names of the cases, in ours."""
_DOOR = door_for(_TOKEN, "agent")
"""Opened before the first case, whose time it would count against."""
_NOT_A_REQUEST = (-32700, -32600, -32601, -32602)


def run(case: Case, root: Path) -> str:
    raw = case.args["raw"]
    within = case.policy.get("max_message_bytes", MESSAGE_BYTES_MAX), case.policy.get("max_depth", JSON_DEPTH_MAX)
    if not _is_read(raw, min(within[0], MESSAGE_BYTES_MAX), min(within[1], JSON_DEPTH_MAX)):
        if not _is_read(raw, MESSAGE_BYTES_MAX, JSON_DEPTH_MAX):
            expect_refusal(_said_at_the_door(raw))
        return "error"
    answer = _said_at_the_door(raw)
    if answer is None or answer.get("error", {}).get("code") in _NOT_A_REQUEST:
        raise CheckFailed(f"the door does not take what the decoder reads: {answer}")
    return "allow"


def _said_at_the_door(raw: str | bytes) -> dict[str, Any] | None:
    return _DOOR.say({"Host": "127.0.0.1", "Authorization": f"Bearer {_TOKEN}"}, "", in_our_words(raw))


def _is_read(raw: str | bytes, bytes_max: int, depth_max: int) -> bool:
    try:
        return _is_request(parse(raw, bytes_max=bytes_max, depth_max=depth_max))
    except CodecError:
        return False


def _is_request(message: Any) -> bool:
    match message:
        case {
            "jsonrpc": "2.0",
            "id": int() | str() as request_id,
            "method": str(method),
            "params": {"tool": str(tool), **rest},
        }:
            named = method in _METHODS and 0 < len(tool) <= IDENTIFIER_CHARS_MAX and not isinstance(request_id, bool)
            return named and isinstance(rest.get("args", {}), dict) and not _holds_nul(rest)
        case _:
            return False


def _holds_nul(value: Any) -> bool:
    """No signature and no path can hold it; binding refuses it after the door."""
    if isinstance(value, dict):
        return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
    return any(map(_holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value
