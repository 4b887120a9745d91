"""Threads for work that waits for a disk: bounded, shared by all calls, and no obstacle to the process ending."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from agent_gate.model.errors import ToolError
from agent_gate.resolve.descriptors import Descriptor

Result = TypeVar("Result")
_Job = tuple[Future[Any], Callable[[], Any]]


class FileThreads:
    """Jobs wait their turn; who gives up waiting withdraws a job that has not begun, and one that has goes on alone."""

    def __init__(self, threads_max: int, jobs_max: int) -> None:
        self._threads_max, self._jobs_max = threads_max, jobs_max
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Again in a child process, which has none of the threads."""
        self._waiting: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._jobs = self._threads = 0

    async def run(self, work: Callable[[], Result], *used: Descriptor) -> Result:
        """The descriptors stay open until the work has ended, also where nobody waits for it any more."""
        if self._jobs >= self._jobs_max:
            raise ToolError("too much file work is waiting", code=2006, suggestion="try again later")
        job: Future[Result] = Future()
        for descriptor in used:
            descriptor.enter()
        self._count(1)
        job.add_done_callback(lambda _: self._ended(used))
        self._waiting.put((job, work))
        return await asyncio.wrap_future(job)

    def _ended(self, used: tuple[Descriptor, ...]) -> None:
        self._count(-1)
        for descriptor in used:
            descriptor.leave()

    def _count(self, change: int) -> None:
        with self._lock:
            self._jobs += change
            if change > 0 and self._threads < min(self._jobs, self._threads_max):
                self._threads += 1
                threading.Thread(target=self._serve, name="agent-gate-files", daemon=True).start()

    def _serve(self) -> None:
        while True:
            job, work = self._waiting.get()
            if not job.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:
                job.set_exception(error)
            else:
                job.set_result(result)
            del job, work
