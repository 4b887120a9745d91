"""Settle: outcome, diff, snapshot, cost and hash link in one transaction; effects wait in the outbox."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from msgspec.structs import replace

from agent_gate.model import record
from agent_gate.model.call import CallRequest
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical
from agent_gate.model.ending import Ending, NextState
from agent_gate.model.entry import (
    GATE_PROJECT,
    Claim,
    Committed,
    Draft,
    OutboxRow,
    SideTableChange,
    StateChange,
    StateRef,
    Work,
)
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import SUCCESS, Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.limits import outstanding
from agent_gate.ports import Clock, Ids, Ledger, Prepared


class Settler:
    def __init__(self, ledger: Ledger, clock: Clock, ids: Ids) -> None:
        self._ledger, self._clock, self._ids = ledger, clock, ids

    def settle(
        self,
        prepared: Prepared,
        verdict: Verdict,
        ending: Ending,
        started_at: float,
        claim: Claim | None,
        opened: bool,
        held: bool,
        reserved: tuple[Charge, ...],
        resolution: Mapping[str, str] | None,
        side_tables: tuple[SideTableChange, ...],
        stands_on: StateRef | None,
    ) -> tuple[Outcome, Awaitable[Committed], str | None]:
        """The outcome, what the ledger will say to it, and the id of the effect that then waits in the outbox.

        `stands_on` is the state of the turn that it is settled in, without which it does not count.
        """
        call, output = prepared.call, ending.output
        first = not opened and not held
        new = ending.next_state if ending.status is SUCCESS else None
        assert new is None or stands_on is not None, "a state is changed in a turn"
        state = self._state_change(new) if new is not None else None
        outcome = self.outcome(prepared, verdict, ending, started_at, state)
        draft = record.settled(
            call,
            prepared.facts,
            verdict,
            outcome,
            first,
            held and not opened,
            self._ids.salt(),
            (output.encoded, output.hash) if output else None,
            resolution,
            state.document_hash if state else None,
        )
        blobs: tuple[tuple[str, bytes], ...] = ()
        if output is not None and len(output.encoded) > record.INLINE_DATA_BYTES_MAX:
            blobs = ((record.output_blob(call.call_id), output.encoded),)
        outbox = self._outbox(prepared, outcome) if prepared.registered.post_execution else ()
        drafts: tuple[Draft, ...] = (draft,)
        if prepared.registered.reverts and outcome.status is Status.SUCCESS:
            drafts = (draft, record.reverted(call, outcome, self._ids.salt()))
        charges = prepared.charges if ending.acted and not opened else ()
        work = Work(
            call.request.project,
            drafts,
            must_be_open=ending.acted and not opened,
            claim=claim if first else None,
            closes=call.call_id if opened else None,
            charges=outstanding(charges, reserved) if charges else (),
            releases=() if ending.acted else reserved,
            stands_on=stands_on,
            state=state,
            unholds=call.call_id if held else None,
            outbox=outbox,
            blobs=blobs,
            side_tables=side_tables,
            undoes=prepared.undoes if ending.acted and not opened else None,
        )
        return outcome, self._ledger.commit(work), outbox[0].effect_id if outbox else None

    def _state_change(self, new: NextState) -> StateChange:
        return StateChange(self._ids.new(), new.document, new.hash, new.value)

    def outcome(
        self, prepared: Prepared, verdict: Verdict, ending: Ending, started_at: float, state: StateChange | None
    ) -> Outcome:
        call = prepared.call
        outcome = Outcome(
            call_id=call.call_id,
            request_id=call.request.request_id or "",
            status=ending.status,
            data=ending.output.data if ending.output else None,
            message=ending.message,
            files=tuple(change.to_json() for change in ending.files) or None,
            error=ending.problem,
            signatures=call.signatures,
            decision=verdict.decision,
            reasons=verdict.reasons,
            cost=prepared.declaration.cost if ending.acted and prepared.declaration.cost else None,
            started_at=started_at,
            ended_at=self._clock.now(),
            tool=call.request.tool,
            args=call.recorded_args,
        )
        if prepared.transition is None or ending.status is not SUCCESS:
            return outcome
        return replace(
            outcome,
            state_version=prepared.facts.state_version + (state is not None),
            state_diff=ending.next_state.diff if state and ending.next_state else (),
            snapshot_id=state.snapshot_id if state else None,
        )

    def _outbox(self, prepared: Prepared, outcome: Outcome) -> tuple[OutboxRow, ...]:
        if outcome.status is not Status.SUCCESS:
            return ()
        call = prepared.call
        return (OutboxRow(self._ids.new(), call.call_id, call.request.tool, canonical(outcome.to_json())),)

    async def settle_unbound(
        self,
        request: CallRequest,
        call_id: str,
        args: Mapping[str, Json] | None,
        problem: Problem,
        *,
        started_at: float,
        admitted: bool,
        claim: Claim | None = None,
        held: bool = False,
        reserved: tuple[Charge, ...] = (),
        side_tables: tuple[SideTableChange, ...] = (),
    ) -> tuple[Outcome, Committed]:
        """A call that never became a bound one; one that was not admitted goes to the gate's own chain."""
        outcome = self.refusal(request, call_id, problem, started_at, args)
        draft = record.unbound(request, call_id, args, outcome, self._ids.salt())
        project = request.project if admitted else GATE_PROJECT
        unholds = call_id if held else None
        work = Work(project, (draft,), claim=claim, unholds=unholds, releases=reserved, side_tables=side_tables)
        return outcome, await self._ledger.commit(work)

    def refusal(
        self,
        request: CallRequest,
        call_id: str,
        problem: Problem,
        started_at: float,
        args: Mapping[str, Json] | None = None,
    ) -> Outcome:
        """`args` as they may be written down."""
        return Outcome(
            call_id=call_id,
            request_id=request.request_id if isinstance(request.request_id, str) else "",
            status=Status.ERROR if 2000 <= problem.code < 6000 else Status.DENIED,
            error=problem,
            decision=Decision.DENY,
            started_at=started_at,
            ended_at=self._clock.now(),
            tool=request.tool if isinstance(request.tool, str) else "",
            args=args,
        )
