"""The life of the simulated server: whether it runs, whom it is connected to, and how it restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from agent_gate.simulated_home.states import State
from agent_gate.simulated_home.users import User

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome

RUNNING, STARTING, NOT_RUNNING = "RUNNING", "STARTING", "NOT_RUNNING"


class Connection(Protocol):
    user: User | None

    def abort(self) -> None: ...


class Life:
    def __init__(self, home: SimulatedHome) -> None:
        self._home = home
        self.phase = RUNNING
        self.connections: set[Connection] = set()
        self.asked_to_restart = asyncio.Event()
        self.comes_back = True
        self.down_s = 0.0
        self.restarts = 0
        self.may_finish = _set()
        self.running = _set()
        self.answering = _set()
        self.speaking = _set()
        self._to_come: list[State] = []

    def drop(self, wanted: Callable[[User], bool]) -> None:
        for connection in list(self.connections):
            if connection.user is not None and wanted(connection.user):
                connection.abort()

    def restart(self, *, down_s: float, hold: bool) -> None:
        self.down_s = down_s
        if hold:
            self.may_finish.clear()
        self.running.clear()
        self.asked_to_restart.set()

    def stop(self) -> None:
        self.comes_back = False
        self.restart(down_s=0.0, hold=False)

    async def end(self) -> None:
        """All connections break, calls that are under way with them, and what the server knew is gone."""
        for connection in list(self.connections):
            connection.abort()
        await self._home.close()
        self.phase = NOT_RUNNING
        self._to_come = self._home.empty()
        self.asked_to_restart.clear()

    async def begin_again(self) -> None:
        """Entities come back bit by bit, and only then the server says that it runs."""
        self.restarts += 1
        third = len(self._to_come) // 3
        self._bring(third)
        await self.may_finish.wait()
        self.phase = STARTING
        self._bring(third)
        await asyncio.sleep(0)
        self._bring(len(self._to_come))
        self.phase = RUNNING
        self.running.set()
        context = self._home.context()
        self._home.bus.fire("homeassistant_started", {}, context)

    def _bring(self, count: int) -> None:
        coming, self._to_come = self._to_come[:count], self._to_come[count:]
        for state in coming:
            self._home.write(state.entity_id, state.state, state.attributes, self._home.context())


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
