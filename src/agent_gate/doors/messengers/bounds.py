"""The bounds of one messenger, all of which a test may set."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.bounds import (
    MESSAGE_LOOK_AGAIN_S,
    MESSAGE_LOOK_INTERVAL_S,
    MESSAGE_OVERDUE_S,
    MESSAGE_PLACE_AGAIN_S,
    MESSAGE_SETTLE_S,
    MESSAGES_WAITING_MAX,
)


@dataclass(frozen=True, slots=True)
class MessengerBounds:
    waiting_max: int = MESSAGES_WAITING_MAX
    look_interval_s: float = MESSAGE_LOOK_INTERVAL_S
    look_again_s: float = MESSAGE_LOOK_AGAIN_S
    settle_s: float = MESSAGE_SETTLE_S
    overdue_s: float = MESSAGE_OVERDUE_S
    place_again_s: float = MESSAGE_PLACE_AGAIN_S
