"""Bounds of the talk with a home: those of `model/bounds.py`, unless whoever starts it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model import bounds


@dataclass(frozen=True, slots=True)
class HomeBounds:
    handshake_s: float = bounds.HOME_HANDSHAKE_S
    goodbye_s: float = bounds.HOME_GOODBYE_S
    pong_s: float = bounds.HOME_PONG_S
    token_look_s: float = bounds.HOME_TOKEN_LOOK_S
    """Between two looks for another token, while the server refuses the one there is."""
    first_sight_s: float = bounds.HOME_FIRST_SIGHT_S
    """For the start of a gate to wait for its home."""
    settled_s: float = bounds.HOME_SETTLED_S
    """For a call to wait until registries that have changed are read again."""
    service_s: float = bounds.HOME_SERVICE_S
    message_bytes_max: int = bounds.HOME_MESSAGE_BYTES_MAX


DEFAULT_BOUNDS = HomeBounds()
