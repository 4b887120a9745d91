"""Raw messages of a door, fed to the decoder of the doors; what it reads must be a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_gate.model.codec import CodecError, parse
from agent_gate.model.limits import IDENTIFIER_CHARS_MAX, JSON_DEPTH_MAX, MESSAGE_BYTES_MAX
from tests.attacks.cases import Case

CHECKS: frozenset[str] = frozenset()

_METHODS = {"tool.call": "tool_request"}
"""The method names of the cases, in ours."""


def run(case: Case, root: Path) -> str:
    try:
        message = parse(
            case.args["raw"],
            bytes_max=min(case.policy.get("max_message_bytes", MESSAGE_BYTES_MAX), MESSAGE_BYTES_MAX),
            depth_max=min(case.policy.get("max_depth", JSON_DEPTH_MAX), JSON_DEPTH_MAX),
        )
    except CodecError:
        return "error"
    return "allow" if _is_request(message) else "error"


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
