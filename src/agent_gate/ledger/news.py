"""News of answers: at once within this process, by polling the data version from others."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

from agent_gate.model.limits import ANSWER_POLL_INTERVAL_S


class AnswerNews:
    """Wakes those who wait for an answer; polls only while somebody waits."""

    def __init__(self, reader: sqlite3.Connection) -> None:
        self._reader = reader
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None

    def tell(self, call_id: str) -> None:
        for future in self._waiting.get(call_id, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, call_id: str, timeout_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(call_id, set()).add(future)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return
        finally:
            self._forget(call_id, future)

    def close(self) -> None:
        if self._poller:
            self._poller.cancel()

    def _forget(self, call_id: str, future: asyncio.Future[None]) -> None:
        waiting = self._waiting[call_id]
        waiting.discard(future)
        if not waiting:
            del self._waiting[call_id]

    async def _poll(self) -> None:
        seen = None
        while self._waiting:
            with suppress(sqlite3.Error):  # who waits will look for itself, and say what is wrong
                version = self._data_version()
                if version != seen:
                    seen = version
                    self._tell_resolved()
            await asyncio.sleep(ANSWER_POLL_INTERVAL_S)

    def _tell_resolved(self) -> None:
        rows = self._reader.execute("SELECT call_id FROM pending_requests WHERE resolution IS NOT NULL").fetchall()
        for (call_id,) in rows:
            self.tell(call_id)

    def _data_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").fetchone()[0])
