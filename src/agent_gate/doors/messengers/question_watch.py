"""Notices what happens to questions elsewhere, so that what a messenger shows stays true."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agent_gate.doors.context import ServerContext
from agent_gate.doors.messengers.backoff import Pause
from agent_gate.doors.messengers.board import Board
from agent_gate.doors.messengers.bounds import MessengerBounds
from agent_gate.doors.messengers.delivery import Delivery

_log = logging.getLogger(__name__)


class QuestionWatch:
    """Names to the delivery whatever has to be shown, or shown otherwise."""

    def __init__(
        self,
        context: ServerContext,
        board: Board,
        delivery: Delivery,
        pause: Pause,
        bounds: MessengerBounds,
        before_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._board, self._delivery, self._pause = context, board, delivery, pause
        self._bounds, self._before_look = bounds, before_look

    async def run(self) -> None:
        """Other doors, other processes, deadlines of questions that nobody holds."""
        clock, ledger, bounds = self._context.gate.clock, self._context.gate.ledger, self._bounds
        while True:
            left_s = 0.0 if self._can_catch_up() else self._board.next_deadline() - clock.now()
            wait_s = min(bounds.look_again_s, max(bounds.look_interval_s, left_s))
            change = asyncio.create_task(ledger.wait_for_change(wait_s))
            try:
                await asyncio.sleep(0)  # so that it listens before we look
                await self._look_at_shown()
                await self._pause(bounds.look_interval_s)
                await change
            except Exception as error:  # most likely the ledger's, and it may be back the next time
                _log.error("cannot see how questions stand: %s", type(error).__name__)
                await self._pause(bounds.look_again_s)
            finally:
                change.cancel()

    async def look_at_all(self) -> None:
        self._delivery.left_out = self._board.left_out = False
        for call_id in self._board.known():
            self._delivery.add(call_id)
        for one in await self._context.approvals.questions():
            self._delivery.add(one.question.call_id)

    async def _look_at_shown(self) -> None:
        self._before_look()
        known = self._board.known()
        unattended = await self._context.approvals.unattended_calls() if known else frozenset()
        for call_id in known:
            if await self._board.is_stale(call_id, unattended=call_id in unattended):
                self._delivery.add(call_id)
        if self._can_catch_up() and self._delivery.is_empty:
            await self.look_at_all()

    def _can_catch_up(self) -> bool:
        """Say whether something was left out for which there is room now."""
        return (self._delivery.left_out or self._board.left_out) and self._board.has_room()
