"""Memory that a burst of calls has left unused goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agent_gate.model.limits import MEMORY_TIDY_INTERVAL_S


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
