"""Calls that were answered with `pending_approval`: the same call made again goes on with them, one time.

A call is known again by the request id that the door gave it: in that stands a keyed hash of the wish.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.model.bounds import WAITING_RESULTS_SHOWN_MAX
from agent_gate.model.call import Agent
from agent_gate.model.codec import canonical, restore
from agent_gate.model.moment import epoch
from agent_gate.model.tool import Json

_WISH_CHARS = 32
_OWN_ID = re.compile(rf"mcp-([0-9a-f]{{{_WISH_CHARS}}})-")


@dataclass(slots=True)
class LeftOpen:
    call_id: str
    request_id: str
    wish: str
    ends_at: float
    """The end of its question, by the clock that nobody can set."""
    followed: bool = False
    """True while somebody waits for it here: then the same call is another one."""


class LeftOpenCalls:
    """Of one agent, in one project."""

    def __init__(self, gate: Gate, mailbox: Mailbox, agent: Agent, project: str) -> None:
        self._gate, self._mailbox, self._agent, self._project = gate, mailbox, agent, project
        self._calls: dict[str, LeftOpen] = {}
        """By call id."""

    def wish(self, tool: str, args: Mapping[str, Json]) -> str:
        """Keyed, because arguments may hold secrets and request ids are seen by everybody."""
        return self._gate.secrets.keyed_hash(canonical([self._project, tool, args]))[:_WISH_CHARS]

    def new_id(self, wish: str) -> str:
        return f"mcp-{wish}-{self._gate.ids.new()}"

    async def look_back(self) -> None:
        """Find what an earlier process left: questions that are still open, and outcomes that nobody has taken."""
        for question in await self._gate.ledger.unsettled_questions():
            if question.agent_id == self._agent.id:
                self._remember(question.call_id, question.request_id, question.left_s(self._gate.clock))
        too_late = [call_id for call_id in await self._waiting() if not await self._remember_settled(call_id)]
        if too_late:
            await self._mailbox.acknowledge(self._agent, too_late)

    async def _waiting(self) -> list[str]:
        """Outcomes of calls that came in here."""
        found = []
        for call_id in await self._gate.ledger.waiting_results(self._agent.id, WAITING_RESULTS_SHOWN_MAX):
            entries = await self._gate.ledger.entries_of(call_id)
            if entries and _OWN_ID.match(entries[0].request_id or ""):
                found.append(call_id)
        return found

    async def _remember_settled(self, call_id: str) -> bool:
        """Tell whether somebody may still come for it: not where nobody was asked, or the deadline has passed."""
        entries = await self._gate.ledger.entries_of(call_id)
        held = [restore(entry.body) for entry in entries if entry.kind == "held" and entry.body]
        left_s = epoch(held[-1]["expires_at"]) - self._gate.clock.now() if held else 0.0
        return left_s > 0 and self._remember(call_id, entries[0].request_id or "", left_s)

    def _remember(self, call_id: str, request_id: str, left_s: float) -> bool:
        own = _OWN_ID.match(request_id)
        if own:
            self._calls[call_id] = LeftOpen(call_id, request_id, own[1], self._gate.clock.monotonic() + left_s)
        return own is not None

    async def take(self, wish: str) -> LeftOpen | None:
        """The oldest call of this wish that nobody waits for; who gets it waits for it now."""
        now = self._gate.clock.monotonic()
        self._calls = {call_id: one for call_id, one in self._calls.items() if one.followed or one.ends_at > now}
        while found := next((one for one in self._calls.values() if one.wish == wish and not one.followed), None):
            if not await self._is_untaken(found.call_id):
                self._calls.pop(found.call_id, None)
            elif not found.followed:
                found.followed = True
                return found
        return None

    async def _is_untaken(self, call_id: str) -> bool:
        """Another process of this agent may have handed its outcome over."""
        ledger = self._gate.ledger
        if await ledger.question(call_id) is not None:
            return True
        waiting = await ledger.waiting_results(self._agent.id, WAITING_RESULTS_SHOWN_MAX)
        return call_id in waiting or len(waiting) == WAITING_RESULTS_SHOWN_MAX

    def put(self, call_id: str, request_id: str, wish: str, expires_at: float) -> LeftOpen:
        """A person is asked; who made the call still waits for it."""
        ends_at = self._gate.clock.monotonic() + expires_at - self._gate.clock.now()
        call = self._calls.setdefault(call_id, LeftOpen(call_id, request_id, wish, ends_at))
        call.followed = True
        return call

    async def handed_over(self, call_id: str) -> None:
        """The agent has the outcome: the same call is a new one from now on."""
        self._calls.pop(call_id, None)
        if await self._mailbox.count(self._agent):
            await self._mailbox.acknowledge(self._agent, (call_id,))

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls
