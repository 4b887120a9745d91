"""The outcome of a call: the one JSON shape that every door answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from agent_gate.model.errors import GateError, Problem
from agent_gate.model.moment import epoch, iso
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.model.word import Word


class Status(Word):
    SUCCESS = "success"
    DENIED = "denied"
    ERROR = "error"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    PENDING_APPROVAL = "pending_approval"
    """An answer, never an outcome in the ledger."""


SUCCESS, PENDING = Status.SUCCESS, Status.PENDING_APPROVAL
"""For what every call passes: looking a member up on its Enum takes longer than many a function."""


class Outcome(Struct, frozen=True, kw_only=True):
    call_id: str
    status: Status
    request_id: str = ""
    data: Json = None
    message: str = ""
    error: Problem | None = None
    signatures: tuple[str, ...] = ()
    decision: Decision | None = None
    reasons: tuple[Reason, ...] = ()
    simulated: bool = False
    simulation: str = ""
    """The word for what a simulation has done with the step: one of those below."""
    state_version: int | None = None
    state_diff: tuple[Mapping[str, Json], ...] | None = None
    snapshot_id: str | None = None
    files: tuple[Mapping[str, Json], ...] | None = None
    """Files that a command changed, or would have changed where it was not let: path, change and bytes of each."""
    cost: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    """Of a question that is still open."""
    tool: str = ""
    args: Mapping[str, Json] | None = None
    """The call, for exceptions: arguments as they are recorded, without secrets. No door answers with them."""

    @property
    def ok(self) -> bool:
        return self.status is Status.SUCCESS

    def raise_for_status(self) -> Outcome:
        """This outcome if it is a success or still open; else the exception of its code."""
        if self.status in (Status.SUCCESS, Status.PENDING_APPROVAL):
            return self
        problem = self.error or Problem(_CODES[self.status], self.message or f"the call ended as {self.status.value}")
        error = GateError.of(problem)
        error.call_id, error.tool, error.arguments = self.call_id, self.tool, dict(self.args or {})
        if self.tool:
            error.add_note(f"call {self.call_id or '(none)'} of {self.tool}")
        raise error

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            **_ids(self.request_id, self.call_id),
            "status": self.status.text,
        }
        if self.data is not None:
            fields["data"] = self.data
        if self.message:
            fields["message"] = self.message
        if self.error is not None:
            fields["error"] = self.error.to_json()
        if self.signatures:
            fields["signatures"] = list(self.signatures)
        if self.decision is not None:
            fields["decision"] = self.decision.text
        if self.reasons:
            fields["reasons"] = [reason.to_json() for reason in self.reasons]
        if self.simulated:
            fields |= {"simulated": True, **({"simulation": self.simulation} if self.simulation else {})}
        if self.state_diff is not None:
            fields["state_diff"] = list(self.state_diff)
        if self.state_version is not None:
            fields["state_version"] = self.state_version
        if self.snapshot_id is not None:
            fields["snapshot_id"] = self.snapshot_id
        if self.files is not None:
            fields["files"] = list(self.files)
        if self.cost is not None:
            fields["cost"] = self.cost
        if self.started_at is not None:
            fields["started_at"] = iso(self.started_at)
        if self.ended_at is not None:
            fields["ended_at"] = iso(self.ended_at)
        if self.expires_at is not None:
            fields["expires_at"] = iso(self.expires_at)
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Outcome:
        """Read what a door answered; `from_json(outcome.to_json())` tells the same."""
        decision = Decision(fields["decision"]) if "decision" in fields else None
        diff, files = fields.get("state_diff"), fields.get("files")
        started_at, ended_at, expires_at = (epoch(fields[name]) if name in fields else None for name in _MOMENTS)
        call_id, request_id = fields.get("call_id", ""), fields.get("request_id", "")
        return cls(
            call_id=call_id,
            status=Status(fields["status"]),
            request_id="" if request_id == call_id else request_id,
            data=fields.get("data"),
            message=fields.get("message", ""),
            error=Problem.from_json(fields["error"]) if "error" in fields else None,
            signatures=tuple(fields.get("signatures", ())),
            decision=decision,
            reasons=tuple(
                Reason(one["layer"], decision, one.get("rule", ""), one.get("text", ""))
                for one in fields.get("reasons", ())
            ),
            simulated=fields.get("simulated", False),
            simulation=fields.get("simulation", ""),
            state_version=fields.get("state_version"),
            state_diff=None if diff is None else tuple(diff),
            snapshot_id=fields.get("snapshot_id"),
            files=None if files is None else tuple(files),
            cost=fields.get("cost"),
            started_at=started_at,
            ended_at=ended_at,
            expires_at=expires_at,
        )


ON_A_COPY, ONLY_JUDGED, ONLY_READ, NOT_KNOWN = "done on a copy", "only judged", "really read", "cannot be known"
SIMULATIONS = (ON_A_COPY, ONLY_JUDGED, ONLY_READ, NOT_KNOWN)
"""Words for what a simulation does with a step: `ONLY_READ` where reads were asked for."""

_MOMENTS = ("started_at", "ended_at", "expires_at")
_CODES = {Status.DENIED: 1001, Status.ERROR: 2003, Status.EXPIRED: 1016, Status.UNKNOWN: 2007}
"""For an outcome whose reason was erased."""


def _ids(request_id: str, call_id: str) -> dict[str, str]:
    """Name the call by its ids; one that was only simulated has none."""
    if call_id:
        return {"request_id": request_id or call_id, "call_id": call_id}
    return {"request_id": request_id} if request_id else {}
