"""Parameters of the methods, checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_gate.doors.codes import Rpc
from agent_gate.doors.websocket.rpc import RpcError
from agent_gate.model.bounds import WAITING_RESULTS_SHOWN_MAX
from agent_gate.model.tool import Json, Mode

_KINDS: Mapping[str, tuple[type, str]] = {
    "args": (dict, "an object"),
    "call_id": (str, "a text"),
    "confirmed": (bool, "true or false"),
    "ids": (list, "a list of texts"),
    "mode": (str, "a text"),
    "plan": (dict, "an object"),
    "project": (str, "a text"),
    "request_id": (str, "a text"),
    "snapshot_id": (str, "a text"),
    "token": (str, "a text"),
    "tool": (str, "a text"),
    "wait": (bool, "true or false"),
}
_MODES = {mode.value: mode for mode in Mode}


def checked(params: Mapping[str, Json], required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> Any:
    """The parameters of a method, each of its kind; one that the method does not have is a mistake."""
    for name, value in params.items():
        if name not in required and name not in optional:
            raise wrong(
                f"`{name[:50]}` is not a parameter here; there are {', '.join((*required, *optional)) or 'none'}"
            )
        kind, words = _KINDS[name]
        if type(value) is not kind:
            raise wrong(f"`{name}` must be {words}")
    for name in required:
        if name not in params:
            raise wrong(f"`{name}` is missing; it must be {_KINDS[name][1]}")
    return params


def mode_of(params: Mapping[str, Json]) -> Mode | None:
    name = params.get("mode")
    if name is None:
        return None
    if name not in _MODES:
        raise wrong(f"`mode` must be one of {', '.join(_MODES)}")
    return _MODES[name]


def ids_of(params: Mapping[str, Json]) -> list[str]:
    ids: list[Any] = params["ids"]
    if len(ids) > WAITING_RESULTS_SHOWN_MAX or not all(type(one) is str for one in ids):
        raise wrong(f"`ids` must be a list of at most {WAITING_RESULTS_SHOWN_MAX} texts")
    return ids


def wrong(what: str) -> RpcError:
    return RpcError(Rpc.INVALID_PARAMS, f"invalid params: {what}")
