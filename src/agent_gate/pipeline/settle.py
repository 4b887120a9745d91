"""Settle: outcome, diff, snapshot, cost and hash link in one transaction; effects wait in the outbox."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from agent_gate.model import record
from agent_gate.model.call import CallRequest
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical
from agent_gate.model.committed import Committed
from agent_gate.model.ending import Ending, NextState
from agent_gate.model.entry import GATE_PROJECT, Draft
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import SUCCESS, Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.model.work import Change, Claim, Close, KeepBlob, QueueEffect, Release, StateChange, Undo, Unhold, Work
from agent_gate.policy.limits import outstanding
from agent_gate.ports.ledger import Append, Turn
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import Judged, Prepared


class Settlement(Struct, frozen=True):
    """The end of a judged call, and everything that its last entry rests on."""

    judged: Judged
    ending: Ending
    started_at: float
    claim: Claim | None
    opened: bool
    """True where its intent is on record."""
    held: bool
    """True where a person was asked."""
    reserved: tuple[Charge, ...]
    """Charges that the ledger already counts for it."""
    resolution: Mapping[str, str] | None
    changes: tuple[Change, ...]
    """Made besides those that follow from how it ended: a grant is used, a result waits."""
    turn: Turn | None
    """The turn at the state without which it does not count, where it was reached in one."""


class Settled(Struct, frozen=True):
    outcome: Outcome
    committed: Committed
    effect_id: str | None
    """Of the effect that waits in the outbox."""


class UnboundCall(Struct, frozen=True):
    """A call that never became a bound one, and why."""

    request: CallRequest
    call_id: str
    problem: Problem
    started_at: float
    args: Mapping[str, Json] | None = None
    """As they may be written down."""


class Settler:
    """Writes the last entry of a call, with all that goes into the ledger beside it."""

    def __init__(self, ledger: Append, clock: Clock, ids: Ids) -> None:
        self._ledger, self._clock, self._ids = ledger, clock, ids

    async def settle(self, settlement: Settlement) -> Settled:
        judged, ending, turn = settlement.judged, settlement.ending, settlement.turn
        opened, held = settlement.opened, settlement.held
        prepared, call, output = judged.prepared, judged.prepared.call, ending.output
        first = not opened and not held
        new = ending.next_state if ending.status is SUCCESS else None
        assert new is None or turn is not None, "a state is changed in a turn"
        state = self._state_change(new) if new is not None else None
        outcome = self.outcome(judged, ending, settlement.started_at, state)
        draft = record.settled(
            call,
            prepared.facts,
            judged.verdict,
            outcome,
            first=first,
            judged_again=held and not opened,
            salt=self._ids.salt(),
            output=(output.encoded, output.hash) if output else None,
            resolution=settlement.resolution,
            state_hash=state.document_hash if state else None,
        )
        effect = self._effect(prepared, outcome) if prepared.registered.post_execution else None
        drafts: tuple[Draft, ...] = (draft,)
        if prepared.registered.reverts and outcome.status is Status.SUCCESS:
            drafts = (draft, record.reverted(call, outcome, self._ids.salt()))
        changes = self._changes(settlement, state, effect)
        stands_on = None if turn is None else turn.state.ref
        work = Work(
            call.request.project, drafts, changes, must_be_open=ending.acted and not opened, stands_on=stands_on
        )
        committed = await (self._ledger if turn is None else turn).commit(work)
        return Settled(outcome, committed, effect.effect_id if effect else None)

    @staticmethod
    def _changes(settlement: Settlement, state: StateChange | None, effect: QueueEffect | None) -> tuple[Change, ...]:
        """In the order in which they are checked: of several refusals the first is told (decision 0028)."""
        ending, opened, held, reserved = settlement.ending, settlement.opened, settlement.held, settlement.reserved
        prepared, output = settlement.judged.prepared, ending.output
        call_id, counts_now = prepared.call.call_id, ending.acted and not opened
        changes: list[Change] = []
        if settlement.claim is not None and not opened and not held:
            changes.append(settlement.claim)
        if opened:
            changes.append(Close(call_id))
        if counts_now and prepared.undoes is not None:
            changes.append(Undo(prepared.undoes))
        changes += settlement.changes
        if counts_now and prepared.charges:
            changes += outstanding(prepared.charges, reserved)
        if not ending.acted:
            changes += map(Release, reserved)
        if state is not None:
            changes.append(state)
        changes += ending.rows
        if held:
            changes.append(Unhold(call_id))
        if effect is not None:
            changes.append(effect)
        if output is not None and len(output.encoded) > record.INLINE_DATA_BYTES_MAX:
            changes.append(KeepBlob(record.output_blob(call_id), output.encoded))
        return tuple(changes)

    def _state_change(self, new: NextState) -> StateChange:
        return StateChange(self._ids.new(), new.document, new.hash, new.value)

    def outcome(self, judged: Judged, ending: Ending, started_at: float, state: StateChange | None = None) -> Outcome:
        prepared, verdict, call = judged.prepared, judged.verdict, judged.prepared.call
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

    def _effect(self, prepared: Prepared, outcome: Outcome) -> QueueEffect | None:
        if outcome.status is not Status.SUCCESS:
            return None
        call = prepared.call
        return QueueEffect(self._ids.new(), call.call_id, call.request.tool, canonical(outcome.to_json()))

    async def settle_unbound(
        self,
        call: UnboundCall,
        *,
        admitted: bool,
        claim: Claim | None = None,
        held: bool = False,
        reserved: tuple[Charge, ...] = (),
        changes: tuple[Change, ...] = (),
    ) -> tuple[Outcome, Committed]:
        """Record a call that was not admitted in the gate's own chain, any other in its project's."""
        outcome = self.refusal(call)
        draft = record.unbound(call.request, call.call_id, call.args, outcome, self._ids.salt())
        project = call.request.project if admitted else GATE_PROJECT
        claims = () if claim is None else (claim,)
        unholds = (Unhold(call.call_id),) if held else ()
        work = Work(project, (draft,), (*claims, *changes, *map(Release, reserved), *unholds))
        return outcome, await self._ledger.commit(work)

    def refusal(self, call: UnboundCall) -> Outcome:
        request, problem = call.request, call.problem
        return Outcome(
            call_id=call.call_id,
            request_id=request.request_id if isinstance(request.request_id, str) else "",
            status=Status.ERROR if 2000 <= problem.code < 6000 else Status.DENIED,
            error=problem,
            decision=Decision.DENY,
            started_at=call.started_at,
            ended_at=self._clock.now(),
            tool=request.tool if isinstance(request.tool, str) else "",
            args=call.args,
        )
