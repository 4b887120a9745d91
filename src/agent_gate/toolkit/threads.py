"""Bounded threads for tools that block."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from agent_gate.model.errors import ToolError
from agent_gate.model.limits import BLOCKING_THREADS_MAX
from agent_gate.model.tool import Json


class BlockingPool:
    """Bounded threads for blocking tools: a slot stays taken until its thread ends, and a full pool is an error.

    The threads are daemons: one whose tool never returns must not keep the process from ending.
    """

    def __init__(self, threads_max: int) -> None:
        self._slots = threading.BoundedSemaphore(threads_max)

    async def run(self, function: Callable[..., Any], arguments: dict[str, Json]) -> Json:
        if not self._slots.acquire(blocking=False):
            raise ToolError("all threads for blocking tools are busy", code=2006, suggestion="try again later")
        job: Future[Json] = Future()
        job.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        work = functools.partial(context.run, self._do, job, function, arguments)
        threading.Thread(target=work, name="agent-gate-tool", daemon=True).start()
        return await asyncio.wrap_future(job)

    def _do(self, job: Future[Json], function: Callable[..., Any], arguments: dict[str, Json]) -> None:
        try:
            result = function(**arguments)
        except BaseException as error:
            self._slots.release()
            # A future cannot carry StopIteration: whoever awaits it would never hear of it.
            job.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        else:
            self._slots.release()
            job.set_result(result)


POOL = BlockingPool(BLOCKING_THREADS_MAX)
