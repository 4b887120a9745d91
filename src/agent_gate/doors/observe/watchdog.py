"""Is the event loop alive: how late it is, and what it does when it does not answer."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent_gate.chain.turn import TURN
from agent_gate.model.bounds import LOOP_BEAT_INTERVAL_S, LOOP_BLOCKED_S

_log = logging.getLogger("agent_gate.watchdog")


class Watchdog:
    """A beat on the loop, which tells its lag, and a thread that notices when the beat stops."""

    def __init__(
        self,
        on_lag: Callable[[float], None] = lambda _: None,
        on_blocked: Callable[[], None] = lambda: None,
        interval_s: float = LOOP_BEAT_INTERVAL_S,
        blocked_s: float = LOOP_BLOCKED_S,
    ) -> None:
        self._on_lag, self._on_blocked = on_lag, on_blocked
        self._interval_s, self._blocked_s = interval_s, blocked_s
        self._last_beat = time.monotonic()
        self._over = threading.Event()
        self._loop_thread = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        self._loop_thread = threading.get_ident()
        self._last_beat = time.monotonic()
        thread = threading.Thread(target=self._watch, name="agent-gate-watchdog", daemon=True)
        thread.start()
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            self._over.set()
            await asyncio.to_thread(thread.join)

    async def _beat(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(self._interval_s)
            self._last_beat = time.monotonic()
            self._on_lag(max(0.0, self._last_beat - began - self._interval_s))

    def _watch(self) -> None:
        """One line for each time that the loop stops, however long."""
        told = 0.0
        while not self._over.wait(self._blocked_s / 4):
            beat = self._last_beat
            silent_s = time.monotonic() - beat - self._interval_s
            if silent_s > self._blocked_s and beat != told:
                told = beat
                policy = TURN.policy
                who = f"policy `{policy}` holds it, and must await or be `blocking`; " if policy else ""
                _log.warning("the event loop does not answer for %.1f s; %sit is at %s", silent_s, who, self._where())
                self._on_blocked()

    def _where(self) -> str:
        """The stack of the loop's thread: places alone, no values."""
        frame = sys._current_frames().get(self._loop_thread)
        places = traceback.extract_stack(frame)[-20:] if frame else []
        return " > ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno} {place.name}" for place in places)
