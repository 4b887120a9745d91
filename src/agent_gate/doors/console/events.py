"""News for an open inbox, as server-sent events: that something has changed, never what; the page then asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from agent_gate.doors.console.frame import HEADERS, Console, Visit
from agent_gate.history import inbox
from agent_gate.history.inbox import Mark

LOOK_AGAIN_S = 10.0
"""Seconds after which the inbox is looked at though nothing was written: deadlines pass by themselves."""
GATHER_S = 0.1
"""Changes that come close together are one piece of news."""


class Events:
    """Every stream waits for itself; one look at the ledger serves all of them."""

    def __init__(self, console: Console) -> None:
        self._console, self._context = console, console.context
        self._streams = 0
        self._looking = asyncio.Lock()
        self._looked: tuple[float, Mark] | None = None

    async def stream(self, visit: Visit) -> Response:
        if self._streams >= self._context.bounds.console_streams_max:
            return PlainTextResponse("too many are watching", 503, {**HEADERS, "retry-after": "30"})
        headers = {**HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(self._news(visit), headers=headers, media_type="text/event-stream")

    async def _news(self, visit: Visit) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield b"retry: 2000\n\n"
            told: Mark | None = None
            cookie = self._console.cookie_of(visit.request)
            while not self._context.closing.is_set():
                if self._console.sessions.find(cookie, active=False) is None:
                    yield b"event: signed-out\ndata: {}\n\n"
                    return
                mark = await self._mark(asyncio.get_running_loop().time())
                if mark != told:
                    told = mark
                    news = {"count": mark.count, "digest": mark.digest, "paused": mark.paused}
                    yield b"event: inbox\ndata: " + orjson.dumps(news) + b"\n\n"
                else:
                    yield b": still here\n\n"
                await self._change()
            yield b"event: closing\ndata: {}\n\n"
        finally:
            self._streams -= 1

    async def _change(self) -> None:
        """Until something was written, the server is to end, or it is time to look again."""
        changed = asyncio.create_task(self._context.gate.ledger.wait_for_change(LOOK_AGAIN_S))
        closing = asyncio.create_task(self._context.closing.wait())
        try:
            await asyncio.wait({changed, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            closing.cancel()
        await asyncio.sleep(GATHER_S)

    async def _mark(self, since: float) -> Mark:
        """The inbox as it was at that moment or later."""
        async with self._looking:
            if self._looked is None or self._looked[0] < since:
                begun = asyncio.get_running_loop().time()
                self._looked = begun, await self._console.read(inbox.mark, self._context.gate.clock)
            return self._looked[1]
