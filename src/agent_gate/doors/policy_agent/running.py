"""How many chains run at once, in all services of one agent together."""

from __future__ import annotations

from types import TracebackType

from agent_gate.doors.policy_agent.methods import Busy


class Running:
    """Entered for each chain that runs; one too many is turned away at once."""

    def __init__(self, at_once_max: int) -> None:
        self._max, self._count = at_once_max, 0

    def __enter__(self) -> None:
        if self._count >= self._max:
            raise Busy(f"{self._max} chains run already, and max_concurrent_requests allows no more")
        self._count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count -= 1
