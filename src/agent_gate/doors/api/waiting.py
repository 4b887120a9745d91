"""Calls that a request waits for, as long as somebody is there to read the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import Request

Result = TypeVar("Result")


async def while_there(request: Request, work: Awaitable[Result]) -> Result | None:
    """The result, unless the client goes first: that ends the waiting, and nothing else."""
    waiting = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        either: set[asyncio.Future[Any]] = {waiting, gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
