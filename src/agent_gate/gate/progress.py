"""Progress of one call: what it has reached so far, and what that means for who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from agent_gate.model.approval import Approver, Question
from agent_gate.model.call import CallRequest, Presence
from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem
from agent_gate.model.grant import Grant
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.record import reason_of
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.model.work import Claim
from agent_gate.pipeline.hold import Resolution
from agent_gate.ports.tools import Judged, Prepared
from agent_gate.ports.watching import Reached


class Progress(Struct, eq=False):
    """Progress of one call: what it has reached so far."""

    request: CallRequest
    call_id: str
    args: Mapping[str, Json]
    started_at: float
    claim: Claim | None
    outcome: Outcome | None = None
    """Once there is one."""
    is_over: bool = False
    """Also where the gate itself failed, so that there is none."""
    opened: bool = False
    question: Question | None = None
    """The last one that was put."""
    agreed: bool = False
    """True once it was answered with yes."""
    shown: Judged | None = None
    """The call that the question was about."""
    resolution: Resolution | None = None
    reserved: tuple[Charge, ...] = ()
    """Charges that the ledger already counts for this call."""
    args_json: bytes | None = None
    """The arguments' canonical bytes, until they have been used."""
    bound: Prepared | None = None
    stages: list[Reached] = []
    """Stages that it was in, in order."""
    waiters: list[asyncio.Future[Outcome]] = []
    """One for each caller, so that one who gives up takes nothing from the others."""
    impatient: list[asyncio.Future[Outcome]] = []
    """Waiters of callers who do not wait while a person thinks."""
    followers: list[Presence] = []
    """Callers who will take the outcome, as long as they are there."""
    promised: bool = False
    """True where it was settled in the belief that one of them would."""
    taken: bool = False
    """True once one of them did."""
    nothing_done: bool = False
    """True where the act was begun and is known to have changed nothing."""
    attempts: int = 0
    """Times that it went from bind on."""
    grant: Grant | None = None
    """The agreement that a person gave beforehand, where it stands for an answer."""

    def release(self) -> None:
        """Give back what binding holds; nothing is held while a person thinks."""
        bound, self.bound = self.bound, None
        if bound is not None:
            bound.release()

    @property
    def held(self) -> bool:
        return self.question is not None

    def still_open(self) -> Outcome:
        """The answer to a caller that does not wait, or cannot."""
        assert self.question is not None
        outcome = replace(
            still_open(self.question), request_id=self.request.request_id or "", started_at=self.started_at
        )
        return replace(outcome, reasons=self.shown.verdict.reasons) if self.shown else outcome

    @property
    def is_left_alone(self) -> bool:
        """True where the agent, which came in by a server's door, is away, so that nobody will take the outcome."""
        for follower in self.followers:
            if follower.here:
                return False
        return bool(self.request.door)

    def waiter(self, *, patient: bool) -> asyncio.Future[Outcome]:
        """Done with the outcome; for one who is not patient, as soon as a question is put."""
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        (self.waiters if patient else self.impatient).append(waiter)
        return waiter

    def tell_impatient(self) -> None:
        """A person is asked: who does not wait for that is told so."""
        for waiter in self.impatient:
            if not waiter.done():
                waiter.set_result(self.still_open())
        self.impatient.clear()

    def end(self, outcome: Outcome | None) -> None:
        """Whoever waits is told; without an outcome the gate itself has failed, and the waiting is broken off."""
        self.is_over, self.outcome = True, outcome
        for waiter in (*self.waiters, *self.impatient):
            if outcome is None:
                waiter.cancel()
            elif not waiter.done():
                waiter.set_result(outcome)

    def agree_by(self, grant: Grant, at: float) -> None:
        self.grant, self.resolution = grant, Resolution("granted", grant.given_by, at)

    def lose_grant(self) -> None:
        """It was used up or taken back in the meantime: a person is asked instead."""
        self.grant, self.resolution = None, None

    def resolution_fields(self) -> dict[str, str] | None:
        if self.resolution is None:
            return None
        fields = resolution_fields(self.resolution)
        return fields | {"grant_id": self.grant.grant_id} if self.grant else fields


def resolution_fields(resolution: Resolution) -> dict[str, str]:
    """The fields by which an entry tells of it."""
    fields = {"resolution": resolution.how, "resolved_at": iso(resolution.at)}
    return fields | {"resolved_by": resolution.by} if resolution.by else fields


def covers(approved: Question | None, verdict: Verdict) -> bool:
    """True where what was approved is all that this verdict asks for: no other role, quorum or layer."""
    if approved is None:
        return False
    required = verdict.requirement
    shown_layers = {reason["layer"] for reason in approved.reasons}
    return (
        verdict.decision is Decision.ASK
        and all(Approver("", approved.approver_roles).has_role(role) for role in required.approver_roles)
        and required.approvers_required <= approved.approvers_required
        and all(reason.layer in shown_layers for reason in verdict.reasons)
    )


def still_open(question: Question) -> Outcome:
    """The answer to who does not wait, or cannot: the call goes on when a person has decided."""
    return Outcome(
        call_id=question.call_id,
        request_id="" if question.request_id == question.call_id else question.request_id,
        status=Status.PENDING_APPROVAL,
        message="a person must agree",
        signatures=question.signatures,
        decision=Decision.ASK,
        reasons=tuple(reason_of(reason, Decision.ASK) for reason in question.reasons),
        started_at=question.created_at,
        expires_at=question.expires_at,
    )


def run_timeout(stage: str) -> Problem:
    return Problem(1008, "the run's global timeout has passed", "raise global_timeout_seconds", stage)


def refusal(resolution: Resolution) -> Problem:
    if resolution.how == "expired":
        return Problem(1016, "nobody answered in time", "make the call again when somebody is there", "hold")
    if resolution.how == "withdrawn":
        return Problem(1020, "the call was withdrawn before anybody answered", stage="hold")
    return Problem(1015, f"`{resolution.by}` said no", "ask them why", "hold")
