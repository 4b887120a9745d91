"""News: of answers at once within this process, of everything else by polling the data version."""

from __future__ import annotations

import asyncio
import heapq
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agent_gate.model.bounds import ANSWER_POLL_INTERVAL_S


class News:
    """Wakes those who wait for an answer, or for any change; polls only while somebody waits."""

    def __init__(
        self,
        reader: sqlite3.Connection,
        now: Callable[[], float],
        each_time: Callable[[], None] = lambda: None,
        poll_s: float = ANSWER_POLL_INTERVAL_S,
    ) -> None:
        """`each_time` is done at every poll."""
        self._reader, self._now, self._each_time, self._poll_s = reader, now, each_time, poll_s
        self._deadlines: list[tuple[float, str]] = []
        """A heap: one look at the clock serves all who wait."""
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._watching: set[asyncio.Future[None]] = set()
        self._poller: asyncio.Task[None] | None = None

    def tell(self, call_id: str) -> None:
        for future in self._waiting.pop(call_id, ()):
            _wake(future)

    def of_answer(self, call_id: str, timeout_s: float | None, deadline: float | None = None) -> Awaitable[None]:
        """Done when there may be news of this question, or its deadline has come."""
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, call_id))
        future = self._future()
        others = [other for other in self._waiting.get(call_id, ()) if not other.done()]
        self._waiting[call_id] = [*others, future]
        return future if timeout_s is None else _within(future, timeout_s)

    def of_change(self, timeout_s: float) -> Awaitable[None]:
        future = self._future()
        self._watching.add(future)
        future.add_done_callback(self._watching.discard)
        return _within(future, timeout_s)

    def _future(self) -> asyncio.Future[None]:
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return asyncio.get_running_loop().create_future()

    def close(self) -> None:
        if self._poller:
            self._poller.cancel()

    async def _poll(self) -> None:
        seen = None
        while self._waiting or self._watching:
            with suppress(sqlite3.Error):  # who waits will look for itself, and say what is wrong
                version = self._data_version()
                if version != seen:
                    self._tell_resolved()
                    if seen is not None:
                        self._tell_watchers()
                    seen = version
            self._tell_due()
            self._each_time()
            await asyncio.sleep(self._poll_s)

    def _tell_due(self) -> None:
        now = self._now()
        while self._deadlines and self._deadlines[0][0] <= now:
            self.tell(heapq.heappop(self._deadlines)[1])

    def _tell_resolved(self) -> None:
        rows = self._reader.execute("SELECT call_id FROM pending_requests WHERE resolution IS NOT NULL").fetchall()
        for (call_id,) in rows:
            self.tell(call_id)

    def _tell_watchers(self) -> None:
        for future in self._watching:
            _wake(future)

    def _data_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").fetchone()[0])


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _within(future: asyncio.Future[None], timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await future
