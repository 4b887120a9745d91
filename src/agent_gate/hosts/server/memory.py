"""Memory of a server: garbage is looked for less often, and what a burst has left unused goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agent_gate.model.bounds import MEMORY_TIDY_INTERVAL_S

_COLLECT_AFTER = 20_000, 20, 50
"""Python's own figures are for programs that make few objects: with many calls under way it would look at all of them
again and again, for a tenth of the server's time."""


def look_for_garbage_less_often() -> None:
    """Leave out of the search what has been made up to now: it lasts as long as the server."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


@asynccontextmanager
async def tidying() -> AsyncIterator[None]:
    """For as long as the block runs; only where the C library can do it, which glibc does not by itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return
    task = asyncio.create_task(_tidy(trim))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tidy(trim: ctypes._NamedFuncPointer) -> None:
    while True:
        await asyncio.sleep(MEMORY_TIDY_INTERVAL_S)
        await asyncio.to_thread(trim, 0)  # it gives up the interpreter, and takes milliseconds
