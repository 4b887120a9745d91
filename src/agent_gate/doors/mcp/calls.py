"""Calls of one agent over MCP: submitted, waited for within bounds, and found again when they are repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil
from typing import TypeAlias

from agent_gate.doors.mcp.left_open import LeftOpen, LeftOpenCalls
from agent_gate.doors.reads import leave_to_read
from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.gate.progress import still_open
from agent_gate.model.bounds import MCP_DECIDED_S, MCP_PROGRESS_INTERVAL_S
from agent_gate.model.call import STDIO_DOOR, Agent, CallRequest
from agent_gate.model.errors import Problem, ToolError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

Progress: TypeAlias = Callable[[float, float, str], Awaitable[None]]
"""Tells the client how long it has been waited, of how long at most, and for what."""

NEWS_WAIT_S = 1.0
"""Seconds between two looks at a call of another process."""
ELSEWHERE = Problem(2007, "the call is under way", "ask again in a moment")


class Calls:
    def __init__(self, gate: Gate, agent: Agent, project: str, wait_s: float, decided_s: float = MCP_DECIDED_S) -> None:
        """`wait_s` is how long a call waits for a person, where the client follows its progress."""
        self.gate, self.agent = gate, agent
        self._project, self._wait_s, self.decided_s = project, wait_s, decided_s
        self._left_open = LeftOpenCalls(gate, Mailbox(gate), agent, project)
        self.ending = asyncio.Event()
        """Set when the door closes: who waits for a person is answered at once."""

    async def look_back(self) -> None:
        await self._left_open.look_back()

    async def call(
        self,
        tool: str,
        args: dict[str, Json],
        *,
        request_id: str | None = None,
        confirmed: bool = False,
        progress: Progress | None = None,
    ) -> Outcome:
        """An outcome, or that a person is asked; the call itself goes on when the caller is cancelled."""
        wish = self._left_open.wish(tool, args)
        earlier = await self._left_open.take(wish) if request_id is None else None
        own_id = request_id or (earlier.request_id if earlier else self._left_open.new_id(wish))
        request = CallRequest(
            self.agent, tool, args, self._project, own_id, confirmed, wait=False, is_plain=True, door=STDIO_DOOR
        )
        outcome = await self._submitted(request, wish, earlier, progress)
        await self._hand_over(outcome, named=request_id is not None)
        return outcome

    async def _submitted(
        self, request: CallRequest, wish: str, open_call: LeftOpen | None, progress: Progress | None
    ) -> Outcome:
        try:
            outcome = await self.gate.submit(request)
            if outcome.status is Status.PENDING_APPROVAL:
                assert request.request_id is not None
                deadline = outcome.expires_at or 0.0
                open_call = open_call or self._left_open.put(outcome.call_id, request.request_id, wish, deadline)
                outcome = await self._followed(outcome, progress)
        finally:
            if open_call is not None:
                open_call.followed = False
        return outcome

    async def result(self, call_id: str, progress: Progress | None = None) -> Outcome:
        """Tell what became of an earlier call of this agent, or why it is not shown; ToolError where it has none."""
        leave = await self.gate.submit(leave_to_read(self.agent, f"/calls/{call_id}", project=self._project))
        if not leave.ok:
            return leave
        entries = await self.gate.ledger.entries_of(call_id)
        if not entries or entries[0].agent_id != self.agent.id:
            raise ToolError(
                f"there is no call `{visible(call_id[:64])}` of yours",
                code=2002,
                suggestion="give the call_id that an earlier answer told",
            )
        found = await self.gate.ledger.question(call_id)
        if found is not None:
            outcome = await self._followed(still_open(found[0]), progress)
        else:
            reached = await self._reached(call_id, max(self._wait_s, self.decided_s))
            outcome = reached or Outcome(call_id=call_id, status=Status.UNKNOWN, error=ELSEWHERE)
        await self._hand_over(outcome)
        return outcome

    async def _hand_over(self, outcome: Outcome, *, named: bool = False) -> None:
        """One that the client named by an id of its own may have waited for it since before this process began."""
        ended = outcome.status is not Status.PENDING_APPROVAL and outcome.error is not ELSEWHERE
        if ended and (named or outcome.call_id in self._left_open):
            await self._left_open.handed_over(outcome.call_id)

    async def _followed(self, pending: Outcome, progress: Progress | None) -> Outcome:
        """The outcome where it comes in time; a client that does not follow waits only for what is decided already."""
        undecided = await self._is_undecided(pending.call_id)
        if undecided and progress is None:
            return pending
        wait_s = self._wait_s if undecided else max(self._wait_s, self.decided_s)
        for tick in range(ceil(wait_s / MCP_PROGRESS_INTERVAL_S)):
            waited_s = tick * MCP_PROGRESS_INTERVAL_S
            if progress is not None:
                await progress(waited_s, wait_s, "waiting for a person to agree")
            outcome = await self._reached(pending.call_id, min(MCP_PROGRESS_INTERVAL_S, wait_s - waited_s))
            if outcome is not None:
                return outcome
            if self.ending.is_set():
                break
        return pending

    async def _is_undecided(self, call_id: str) -> bool:
        answer = await self.gate.ledger.answer_to(call_id)
        return answer is not None and answer[0] is None

    async def _reached(self, call_id: str, timeout_s: float) -> Outcome | None:
        """The outcome of a call, of whichever process; None where it has none in time, or the door closes."""
        outcome, ending = asyncio.create_task(self._outcome(call_id)), asyncio.create_task(self.ending.wait())
        try:
            await asyncio.wait({outcome, ending}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return outcome.result() if outcome.done() else None
        finally:
            outcome.cancel()
            ending.cancel()

    async def _outcome(self, call_id: str) -> Outcome:
        while True:
            outcome = await self.gate.result(call_id)
            if outcome is not None:
                return outcome
            await self.gate.ledger.wait_for_change(NEWS_WAIT_S)
