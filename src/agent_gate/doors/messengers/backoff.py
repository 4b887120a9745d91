"""Waits before the next attempt: longer each time, never exactly as long as others."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from agent_gate.model.bounds import MESSAGE_BACKOFF_S_MAX

Pause: TypeAlias = Callable[[float], Awaitable[None]]
_FIRST_S = 0.5


class Backoff:
    def __init__(self) -> None:
        self._failures = 0
        self._random = random.SystemRandom()

    def next_s(self) -> float:
        longest_s = min(MESSAGE_BACKOFF_S_MAX, _FIRST_S * 2 ** min(self._failures, 16))
        self._failures += 1
        return self._random.uniform(longest_s / 2, longest_s)

    def reset(self) -> None:
        self._failures = 0
