"""Questions about the past: a few at once, each in a thread, over connections that are opened once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from agent_gate.model.bounds import READS_AT_ONCE_MAX
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Unreadable
from agent_gate.ports.reading import Reader
from agent_gate.ports.storage import Storage

Answer = TypeVar("Answer")


class TookTooLongError(StorageError):
    """An answer that was broken off."""

    default_code = 5003


class Readings:
    """Readers of one ledger for whoever asks: each is one thread's at a time, and there are never more than so many."""

    def __init__(self, storage: Storage, at_once: int = READS_AT_ONCE_MAX) -> None:
        self._storage = storage
        self._turns = asyncio.Semaphore(at_once)
        self._idle: list[Reader] = []
        self._lock = threading.Lock()
        self._closed = False

    async def ask(self, question: Callable[[Reader], Answer], seconds: float | None = None) -> Answer:
        """The answer to a question; TookTooLongError where it takes longer than so many seconds."""
        async with self._turns:
            return await asyncio.to_thread(self._answer, question, seconds)

    def _answer(self, question: Callable[[Reader], Answer], seconds: float | None) -> Answer:
        ends_at = None if seconds is None else time.monotonic() + seconds
        with self._reader() as reader:
            reader.give_up_at(ends_at)
            try:
                return question(reader)
            except Unreadable:
                if ends_at is None or time.monotonic() <= ends_at:
                    raise
                raise TookTooLongError(f"the answer took longer than {seconds:.0f} s") from None

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        """One that nobody uses now. After a fault it is not used again: a statement of it may still be under way."""
        reader = self._taken()
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(reader)
                return
        reader.close()

    def _taken(self) -> Reader:
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            return self._storage.reader(at_work=True)
        if reader.is_current():
            return reader
        reader.close()
        self.close_idle()
        return self._storage.reader(at_work=True)

    def close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def close(self) -> None:
        """Let go of what nobody uses; what is under way lets go of itself."""
        self._closed = True
        self.close_idle()
