"""The mailbox of a server: outcomes of agents that are away, and calls that its predecessor held for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_gate.gate.gate import Gate
from agent_gate.model.approval import Question
from agent_gate.model.bounds import WAITING_RESULTS_BYTES_MAX, WAITING_RESULTS_SHOWN_MAX
from agent_gate.model.call import STDIO_DOOR, Agent, CallRequest
from agent_gate.model.codec import canonical, restore
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Mode
from agent_gate.model.work import LeaveResult, TakeResults, Work


class Mailbox:
    """One for each server; what it holds is in the ledger."""

    def __init__(
        self,
        gate: Gate,
        agents: Mapping[str, Agent] | None = None,
        *,
        results_bytes_max: int = WAITING_RESULTS_BYTES_MAX,
    ) -> None:
        """`agents` are those whose calls this process may go on with where theirs is gone."""
        self._gate, self._ledger, self._agents = gate, gate.ledger, agents or {}
        self._results_bytes_max = results_bytes_max

    async def count(self, agent: Agent) -> int:
        return await self._ledger.waiting_results_count(agent.id)

    async def results(self, agent: Agent) -> list[Outcome]:
        """The outcomes that were reached while the agent was away, oldest first; they stay until acknowledged.

        As many as fit one answer: at least one, and the others when that is acknowledged.
        """
        outcomes: list[Outcome] = []
        size = 0
        for call_id in await self._ledger.waiting_results(agent.id, WAITING_RESULTS_SHOWN_MAX):
            outcome = await self._gate.result(call_id)
            if outcome is None:
                continue
            size += len(canonical(outcome.to_json()))
            if outcomes and size > self._results_bytes_max:
                break
            outcomes.append(outcome)
        return outcomes

    async def keep(self, agent: Agent, outcome: Outcome) -> None:
        """An outcome that could not be handed over after all."""
        at = iso(self._gate.clock.now())
        left = LeaveResult(agent.id, outcome.call_id, outcome.request_id or None, at)
        await self._ledger.commit(Work(GATE_PROJECT, changes=(left,)))

    async def acknowledge(self, agent: Agent, ids: Iterable[str]) -> int:
        """The agent has these, named by call id or by its own request id; how many were still waiting."""
        before = await self.count(agent)
        await self._ledger.commit(Work(GATE_PROJECT, changes=(TakeResults(agent.id, tuple(ids)),)))
        return before - await self.count(agent)

    async def take_over_held(self, agents: Mapping[str, Agent]) -> int:
        """Go on with the calls that a server which is gone held for known agents; how many there were.

        A call with secret arguments cannot be made again from the record, and waits for the agent to make it.
        """
        taken = 0
        for question in await self._ledger.unsettled_questions():
            request = await self._request(question, agents)
            if request and request.door != STDIO_DOOR and await self._ledger.abandoned_by(question.call_id):
                taken += await self._gate.take_over(request, question.call_id)
        return taken

    async def could_take_over(self, question: Question) -> bool:
        """True where this process would do the very thing that a person is asked about.

        A process that served one agent stood somewhere else, perhaps: what is bound here must be what was shown.
        """
        request = await self._request(question, self._agents)
        return request is not None and await self._gate.bound_hash(request) == question.bound_hash

    async def take_over(self, question: Question) -> bool:
        """Go on with a call that a person agreed to, whose process is gone; its outcome waits for the agent."""
        request = await self._request(question, self._agents)
        return request is not None and await self._gate.take_over(request, question.call_id)

    async def _request(self, question: Question, agents: Mapping[str, Agent]) -> CallRequest | None:
        """The wish as the first entry tells it; None where it came in by no door, or cannot be told."""
        agent, registered = agents.get(question.agent_id), self._gate.tools.find(question.tool)
        entries = await self._ledger.entries_of(question.call_id)
        told: Mapping[str, Any] = next((restore(e.body) for e in entries if e.kind == "held" and e.body), {})
        secret = registered.declaration.secret if registered else frozenset()
        if (
            agent is None
            or registered is None
            or question.has_run
            or "door" not in told
            or secret & question.args.keys()
        ):
            return None
        facts = told.get("facts", {})
        return CallRequest(
            agent,
            question.tool,
            question.args,
            question.project,
            None if question.request_id == question.call_id else question.request_id,
            facts.get("confirmed", False),
            Mode(facts["mode"]) if "mode" in facts else None,
            door=told["door"],
        )
