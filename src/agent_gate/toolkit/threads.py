"""Bounded threads for tools that block."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from agent_gate.model.bounds import BLOCKING_THREADS_MAX, JUDGING_THREADS_MAX, PLACE_WAIT_S, TRANSITION_THREADS_MAX
from agent_gate.model.tool import Json
from agent_gate.system.sharing import Places


class BlockingPool:
    """Bounded threads for blocking tools: a place stays taken until its thread ends, and a full pool is an error.

    The threads are daemons: one whose tool never returns must not keep the process from ending.
    """

    def __init__(self, threads_max: int, wait_s: float = 0.0) -> None:
        self._places = Places(threads_max, "blocking tools run", wait_s)

    async def run(self, function: Callable[..., Any], arguments: dict[str, Json]) -> Json:
        holder = await self._places.take()
        job: Future[Json] = Future()
        job.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        work = functools.partial(context.run, self._do, job, function, arguments, holder)
        try:
            threading.Thread(target=work, name="agent-gate-tool", daemon=True).start()
        except BaseException:
            self._places.give_back(holder)
            raise
        return await asyncio.wrap_future(job)

    def _do(self, job: Future[Json], function: Callable[..., Any], arguments: dict[str, Json], holder: str) -> None:
        try:
            result = function(**arguments)
        except BaseException as error:
            self._places.give_back(holder)
            # A future cannot carry StopIteration: whoever awaits it would never hear of it.
            job.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        else:
            self._places.give_back(holder)
            job.set_result(result)


POOL = BlockingPool(BLOCKING_THREADS_MAX, PLACE_WAIT_S)
TRANSITIONS = BlockingPool(TRANSITION_THREADS_MAX, PLACE_WAIT_S)
"""For pure functions, which a tool that hangs does not keep waiting."""
JUDGING = BlockingPool(JUDGING_THREADS_MAX, PLACE_WAIT_S)
"""For verdicts on large calls."""
