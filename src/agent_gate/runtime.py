"""Gate: takes calls in, lets each go its way, and answers whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final

from agent_gate.imagining import Imagining
from agent_gate.model.approval import Answer, Approver, GrantTerms
from agent_gate.model.call import Agent, CallRequest, Presence
from agent_gate.model.entry import Applied, Claim
from agent_gate.model.errors import GateError, Problem, StorageError, ToolError
from agent_gate.model.outcome import PENDING, Outcome, Status
from agent_gate.model.record import began_at, reserved_by
from agent_gate.model.tool import Json, Mode
from agent_gate.passage import Passage, run_timeout
from agent_gate.pipeline.admit import Admitted, Repeated, Turned, other_arguments
from agent_gate.policy.judge import Judge
from agent_gate.ports import Clock, Ids, Ledger, Secrets, Service, Tools
from agent_gate.stages import Stages

BREAK_OFF_LOOK_S = 0.1
"""How often a step that is to end is looked at: it may just be on its way to a question."""
UNSAID: Final[Any] = object()
"""Stands for an option that the caller did not say, whatever its type."""


class Gate(Imagining):
    """The one way from an agent's wish to a recorded outcome."""

    def __init__(
        self,
        stages: Stages,
        judge: Judge,
        tools: Tools,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
        agent: Agent,
    ) -> None:
        super().__init__(stages, judge, ledger, clock)
        self.secrets = secrets
        self.tools = tools
        self.agent = agent
        self.ids = ids
        self.services: Sequence[Service] = ()
        """What offers the tools, as far as it has a health of its own."""
        self._by_call: dict[str, Passage] = {}
        self._under_way: dict[tuple[str, str], Passage] = {}
        self._of_run: dict[str, Passage] = {}
        """The last step of each run that has not ended: under way, or just settled."""
        self._taking_over = asyncio.Lock()

    @property
    def calls_under_way(self) -> int:
        """Those that have no outcome yet."""
        return len(self._by_call)

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json] | None = None,
        /,
        *,
        project: str = UNSAID,
        request_id: str | None = UNSAID,
        confirmed: bool = UNSAID,
        mode: str | None = UNSAID,
        wait: bool = UNSAID,
        agent: Agent | None = UNSAID,
        **arguments: Json,
    ) -> Outcome:
        """Put one call through all six stages; arguments are given as a mapping or by name.

        The call's own options are project `default`, no `request_id`, not `confirmed`, the agent's `mode` and `wait`
        unless they are said. Where the tool has an argument of such a name, its arguments need the mapping.
        """
        options: dict[str, Any] = {
            "project": project,
            "request_id": request_id,
            "confirmed": confirmed,
            "mode": mode,
            "wait": wait,
            "agent": agent,
        }
        said = {name: value for name, value in options.items() if value is not UNSAID}
        if said and args is None:
            self._refuse_ambiguous(tool, said)
        request = CallRequest(
            said.get("agent") or self.agent,
            tool,
            {**(args or {}), **arguments},
            said.get("project", "default"),
            said.get("request_id"),
            said.get("confirmed", False),
            mode_named(said.get("mode")),
            wait=said.get("wait", True),
        )
        return await self.submit(request)

    def _refuse_ambiguous(self, tool: str, options: Iterable[str]) -> None:
        """A keyword may not mean one thing today and another when the tool gets an argument of that name."""
        hand = self.tools.find(tool)
        arguments = hand.declaration.input_schema.get("properties", {}) if hand else {}
        for name in options:
            if name in arguments:
                raise ToolError(
                    f"`{name}` is an argument of `{tool}` and an option of the call",
                    code=2002,
                    suggestion=f'give the arguments as one mapping: gate.call("{tool}", {{"{name}": …}})',
                )

    async def submit(self, request: CallRequest) -> Outcome:
        """A request as a door hands it over. The call goes on when the caller is cancelled: it is never half-done."""
        call_id, started_at, since = self.ids.new(), self.clock.now(), self.clock.monotonic()
        try:
            if self._closing:
                raise StorageError("the gate is closed", suggestion="open it again")
            if request.run_ends_at is not None and since >= request.run_ends_at:
                return await self.refuse(request, run_timeout("admit"))
            admission = self._stages.admission
            admitted: Admitted | Repeated | Turned = admission.admit_unseen(request)
            if isinstance(admitted, Admitted) and not admission.is_enough(request):
                admitted = await admission.look_up(admitted, call_id)
            if not isinstance(admitted, Admitted):
                if isinstance(admitted, Repeated):
                    return await self._repeat(request, admitted)
                return await self._turn_away(request, call_id, admitted, started_at)
            claim = admitted.claim
            if claim is not None and (same := self._under_way.get((claim.agent_id, claim.request_id))):
                return await self._join(same, claim, request, call_id, started_at)
            passage = Passage(request, call_id, admitted.args, started_at, claim, args_json=admitted.args_json)
            passage.stages.append(("admit", since))
            self._set_out(passage)
            if request.presence is not None and request.wait:
                # In the task of a door that does not cancel it: one task for a call instead of two.
                return await self._attend(passage, request.presence, self._go(passage))
            self._start(self._go(passage))
            return await self._follow(passage, request)
        except StorageError as error:
            return self._stages.settler.refusal(request, call_id, error.problem.at("admit"), started_at)

    def _set_out(self, passage: Passage) -> None:
        request = passage.request
        self._by_call[passage.call_id] = passage
        if request.request_id is not None:
            self._under_way[request.agent.id, request.request_id] = passage
        if request.run_id is not None:
            self._of_run[request.run_id] = passage

    def _end(self, passage: Passage, outcome: Outcome | None) -> None:
        self._by_call.pop(passage.call_id, None)
        if passage.request.request_id is not None:
            self._under_way.pop((passage.request.agent.id, passage.request.request_id), None)
        super()._end(passage, outcome)

    async def _follow(self, passage: Passage, request: CallRequest) -> Outcome:
        reaching = self._outcome_for(passage, request.wait)
        return await self._attend(passage, request.presence or Presence(), reaching)

    async def _attend(self, passage: Passage, presence: Presence, reaching: Awaitable[Outcome]) -> Outcome:
        """The outcome for one caller; what nobody takes in the end waits for its agent."""
        passage.followers.append(presence)
        try:
            outcome = await reaching
            passage.taken |= presence.here and outcome.status is not PENDING
            return outcome
        finally:
            passage.followers.remove(presence)
            if passage.promised and passage.is_left_alone and not passage.taken:
                self._start(self._leave_behind(passage))

    async def _outcome_for(self, passage: Passage, wait: bool) -> Outcome:
        if passage.outcome is not None:
            return passage.outcome
        if not wait and passage.held:
            return passage.still_open()
        return await passage.waiter(patient=wait)

    async def refuse(self, request: CallRequest, problem: Problem) -> Outcome:
        """Record that a call could not even be made: the run that it belongs to knows why."""
        call_id, started_at = self.ids.new(), self.clock.now()
        args = self.recordable(request.tool, request.args)
        try:
            outcome, _ = await self._stages.settler.settle_unbound(
                request, call_id, args, problem, started_at=started_at, admitted=True
            )
        except StorageError as error:
            return self._stages.settler.refusal(request, call_id, error.problem.at("settle"), started_at)
        return outcome

    async def answer(
        self,
        call_id: str,
        *,
        approve: bool,
        by: Approver,
        nonce: str | None = None,
        note: str = "",
        grant: GrantTerms | None = None,
    ) -> None:
        """A person's yes or no, with a grant for later calls where it is given; raises where it does not count."""
        if nonce is None:
            found = await self.ledger.question(call_id)
            nonce = found[0].nonce if found else ""
        answer = Answer(call_id, nonce, approve, by, self.clock.now(), note, grant)
        problem = await self._stages.holder.answer(answer)
        if problem:
            raise GateError.of(problem)

    def count_refusal(self, who: str, problem: Problem) -> None:
        """Somebody was turned away at a door: counted, and written down in a summary, never one entry each."""
        self._stages.tally.count(who, problem)
        self.observer.refused(problem)

    async def withdraw(self, agent: Agent, request_id: str) -> Outcome:
        """The agent takes a call back that waits for a person; one that has ended stays as it is."""
        claimed = await self.ledger.claimed(agent.id, request_id)
        if claimed is None:
            raise ToolError(f"there is no request `{request_id}` of yours", code=2002)
        found = await self.ledger.question(claimed[0])
        if found is not None and found[1] is None:
            await self._stages.holder.withdraw(found[0])
        outcome = await self._outcome_of_other(claimed[0], wait=found is not None)
        if found is None and outcome.status is Status.UNKNOWN and outcome.ended_at is None:
            raise ToolError("the call is being performed and cannot be withdrawn any more", code=2003)
        return outcome

    async def take_over(self, request: CallRequest, call_id: str) -> bool:
        """Go on with a call whose process is gone while it waited for a person; the agent need not be there."""
        async with self._taking_over:
            if call_id in self._by_call:
                return False
            return await self._take_over(request, Repeated(call_id, dict(request.args))) is not None

    async def result(self, call_id: str) -> Outcome | None:
        """The outcome of a call, once it has one; None where this process does not work on it and none is recorded."""
        passage = self._by_call.get(call_id)
        if passage is not None:
            return await self._outcome_for(passage, wait=True)
        return await self._recorded(call_id)

    async def break_off(self, run_id: str) -> Outcome | None:
        """End the last step that a run began, and tell how it was settled; None where it began none."""
        if run_id not in self._of_run:
            return None
        passage = self._of_run[run_id]
        self._stages.performer.break_off(passage.call_id)
        while not passage.is_over:
            if passage.question is not None and not passage.agreed:
                await self._stages.holder.withdraw(passage.question)
            await asyncio.wait({passage.waiter(patient=True)}, timeout=BREAK_OFF_LOOK_S)
        self._stages.performer.forget(passage.call_id)
        return passage.outcome

    def end_run(self, run_id: str) -> None:
        """No step of it will be broken off any more."""
        self._of_run.pop(run_id, None)

    async def close(self) -> None:
        """Let what runs settle; questions stay open in the ledger, and who waits for one is told that it is pending."""
        if self._closing:
            return
        self._closing = True
        for task in self._waiting:
            task.cancel()
        await asyncio.sleep(0)  # who has just been cancelled leaves an outcome behind
        while self._tasks or self._by_call:  # a call that ends may leave its effect behind
            ends = [passage.waiter(patient=True) for passage in self._by_call.values()]
            await asyncio.wait([*self._tasks, *ends])
            await asyncio.sleep(0)
        await self._stages.tally.close()

    async def _turn_away(self, request: CallRequest, call_id: str, turned: Turned, started_at: float) -> Outcome:
        if not turned.recorded:
            self._stages.tally.count(request.agent.id, turned.problem)
            outcome = self._stages.settler.refusal(request, call_id, turned.problem, started_at)
            self.observer.ended(call_id, request.tool, outcome)
            return outcome
        args = self.recordable(request.tool, turned.args) if turned.args else None
        outcome, _ = await self._stages.settler.settle_unbound(
            request, call_id, args, turned.problem, started_at=started_at, admitted=False
        )
        self.observer.ended(call_id, request.tool, outcome)
        return outcome

    async def _join(
        self,
        passage: Passage,
        claim: Claim,
        request: CallRequest,
        call_id: str,
        started_at: float,
    ) -> Outcome:
        assert passage.claim is not None
        if passage.claim.input_hash != claim.input_hash:
            turned = Turned(other_arguments(claim.request_id))
            return await self._turn_away(request, call_id, turned, started_at)
        return await self._follow(passage, request)

    async def _repeat(self, request: CallRequest, repeated: Repeated) -> Outcome:
        assert request.request_id is not None
        key = request.agent.id, request.request_id
        same = self._under_way.get(key)
        if same is None and await self.ledger.abandoned_by(repeated.call_id):
            async with self._taking_over:
                same = self._under_way.get(key) or await self._take_over(request, repeated)
        if same is None:
            return await self._outcome_of_other(repeated.call_id, request.wait)
        return await self._follow(same, request)

    async def _take_over(self, request: CallRequest, repeated: Repeated) -> Passage | None:
        """A held call that nobody works on any more, made again: it goes on from its question.

        None where another process was faster.
        """
        call_id = repeated.call_id
        gone, found = await self.ledger.abandoned_by(call_id), await self.ledger.question(call_id)
        if gone is None or found is None:
            return None
        earlier = await self.ledger.entries_of(call_id)
        if not isinstance(await self._stages.holder.take_over(found[0], earlier, gone), Applied):
            return None
        passage = Passage(request, call_id, repeated.args, began_at(earlier) or found[0].created_at, None)
        passage.question, passage.reserved = found[0], reserved_by(earlier)
        self._set_out(passage)
        self._start(self._go(passage))
        return passage


def mode_named(name: str | None) -> Mode | None:
    try:
        return Mode(name) if name else None
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise ToolError(f"mode `{name}` is unknown", code=2002, suggestion=f"write one of {modes}") from None
