"""Staying connected to a home: attempts that grow rarer, pings, and polls while there is no connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from agent_gate.model.bounds import HOME_BACKOFF_S_MAX, HOME_BACKOFF_S_MIN
from agent_gate.model.errors import GateError
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.credentials import Token
from agent_gate.services.home_assistant.faults import AuthRefused, Lost
from agent_gate.services.home_assistant.link import Link, linked
from agent_gate.services.home_assistant.sync import Pause, Sync

_log = logging.getLogger(__name__)


class Connection:
    """Runs until it is cancelled; a token that the server refuses is not shown again, and another one is waited for."""

    def __init__(
        self,
        address: Address,
        token: Token,
        sync: Sync,
        *,
        ping_interval_s: float,
        poll_interval_s: float,
        pause: Pause,
        jitter: Callable[[], float],
        bounds: HomeBounds = DEFAULT_BOUNDS,
    ) -> None:
        """`jitter` gives numbers from 0 to 1: clients that lost the same server do not come back all at once."""
        self.link: Link | None = None
        """Authenticated; None while there is none."""
        self.trouble = "home assistant has not been reached yet"
        self.refused: AuthRefused | None = None
        """While the server refuses the token, and nobody has given another."""
        self.tried = asyncio.Event()
        """Set once the first attempt has come to something: in step, refused, or polled instead."""
        self._address, self._token, self._sync = address, token, sync
        self._ping_interval_s, self._poll_interval_s = ping_interval_s, poll_interval_s
        self._pause, self._jitter, self.bounds = pause, jitter, bounds
        self._polls: asyncio.Task[None] | None = None
        self._told = False

    async def run(self) -> None:
        delay_s = HOME_BACKOFF_S_MIN
        try:
            while True:
                try:
                    was_in_step = await self._one_link()
                except AuthRefused as refused:
                    self._refuse(refused)
                    if not await self._another_token():
                        return
                    continue
                self._start_polls()
                delay_s = HOME_BACKOFF_S_MIN if was_in_step else delay_s
                await self._pause(delay_s * (0.5 + self._jitter() / 2))
                delay_s = min(2 * delay_s, HOME_BACKOFF_S_MAX)
                if await self._token.renew():
                    await self._end_polls()  # which may have ended at the old one
        finally:
            self.tried.set()
            await self._end_polls()

    def _refuse(self, refused: AuthRefused) -> None:
        remedy = "" if self._token.can_be_replaced else ", and start it again"
        self.refused, self.trouble = refused, f"{refused}; give the gate another one{remedy}"
        self._told = True
        _log.error("%s", self.trouble)
        self.tried.set()

    async def _another_token(self) -> bool:
        """Until there is one; False where none can come. The refused one counts as a failed login at each try."""
        await self._end_polls()
        while self._token.can_be_replaced:
            await self._pause(self.bounds.token_look_s)
            if await self._token.renew():
                _log.warning("home assistant is tried with another token, %s", self._token.named)
                self.refused, self.trouble = None, "home assistant is tried with another token"
                return True
        return False

    async def _one_link(self) -> bool:
        """From one attempt to connect to the end of what came of it; whether the home was in step by it."""
        was_in_step = False
        try:
            async with linked(self._address, self._token.value, self.bounds) as link:
                await self._end_polls()
                self.link, self.trouble = link, "home assistant is being read, or still starts"
                reason = await self._serve(link)
                was_in_step = self._sync.stands.is_set()
        except Lost as lost:
            reason = str(lost)
        except AuthRefused:
            raise
        except Exception as error:
            reason = _failed(error)
        finally:
            self.link = None
            self._sync.lost()
        self._tell(f"home assistant cannot be reached: {reason}")
        return was_in_step

    async def _serve(self, link: Link) -> str:
        """Until the link ends or one of its tasks fails; why."""
        jobs = [asyncio.create_task(job) for job in (self._sync.keep(link), self._ping(link), self._greet(link))]
        try:
            ends: list[asyncio.Future[Any]] = [*jobs[:2], link.ended]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in jobs:
                job.cancel()
            ended = await asyncio.gather(*jobs, return_exceptions=True)
        return link.ended.result() if link.ended.done() else _why(ended)

    async def _greet(self, link: Link) -> None:
        await self._sync.stands.wait()
        self.trouble = ""
        # Whoever read that it was out of reach reads that it is back.
        _log.log(logging.WARNING if self._told else logging.INFO, "connected to home assistant %s", link.version)
        self._told = False
        self.tried.set()

    async def _ping(self, link: Link) -> None:
        while True:
            await self._pause(self._ping_interval_s)
            await link.ping(self.bounds.pong_s)

    def _start_polls(self) -> None:
        if self._polls is None:
            self._polls = asyncio.create_task(self._poll())

    async def _end_polls(self) -> None:
        """Before a connection fills the cache: a poll that is under way must not put older states in."""
        if self._polls is not None:
            self._polls.cancel()
            await asyncio.wait({self._polls})
            self._polls = None

    async def _poll(self) -> None:
        while True:
            try:
                await self._sync.poll()
            except AuthRefused:
                return  # the next attempt to connect finds out for good
            except Exception as error:
                _log.debug("home assistant could not be polled: %s", type(error).__name__)
            finally:
                self.tried.set()
            await self._pause(self._poll_interval_s)

    def _tell(self, trouble: str) -> None:
        """Once, not at every attempt."""
        if trouble != self.trouble:
            _log.warning("%s", trouble)
            self._told = True
        self.trouble = trouble


def _why(ended: list[BaseException | None]) -> str:
    errors = [error for error in ended if isinstance(error, Exception)]
    return _failed(errors[0]) if errors else "the connection was lost"


def _failed(error: Exception) -> str:
    if isinstance(error, Lost | GateError):
        return str(error)
    _log.error("keeping in step with home assistant failed: %s", type(error).__name__)
    return f"what it says cannot be used ({type(error).__name__})"
