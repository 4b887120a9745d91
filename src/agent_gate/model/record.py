"""Entries of a call, written and read back: drafts, and the outcome that a settled one holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orjson import Fragment

from agent_gate.model.approval import Question
from agent_gate.model.call import BoundCall, CallRequest, Facts
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical, composed, part, restore, sha256_hex
from agent_gate.model.entry import Draft, Entry, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.moment import epoch, iso
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.model.verdict import ALLOW, Decision, Reason, Verdict

INLINE_DATA_BYTES_MAX = 32_768
"""A larger result lives in a blob of its own."""

_SETTLED = Kind.SETTLED

RESERVED_WINDOW = 3_600
"""Buckets that releasing a charge leaves alone; no limit looks further back."""


def output_blob(call_id: str) -> str:
    """The name of the blob that holds a call's large result; not shared, so that erasing the call can erase it."""
    return f"output:{call_id}"


def undo_blob(call_id: str) -> str:
    """The name of the blob that holds what undoing a call needs; not shared, for the same reason."""
    return f"undo:{call_id}"


def held(
    bound: BoundCall,
    facts: Facts,
    verdict: Verdict,
    question: Question,
    instance: str,
    salt: str,
    started_at: float,
    reserved: Sequence[Charge] = (),
) -> Draft:
    body = _first_body(bound, facts, verdict) | {
        "bound_hash": bound.bound_hash,
        "expires_at": iso(question.expires_at),
        "instance": instance,
        "nonce": question.nonce,
        "salt": salt,
        "started_at": iso(started_at),
    }
    if question.has_run:
        del body["facts"]  # the call itself was judged before it ran, and is judged again by that entry alone
    if reserved:
        body["reserved"] = part([[charge.scope, charge.bucket, charge.amount] for charge in reserved])
    if bound.request.door:
        body["door"] = bound.request.door
    return _draft(Kind.HELD, bound, question.created_at, body, None)


def taken_over(question: Question, earlier: Sequence[Entry], at: float, instance: str, salt: str) -> Draft:
    """That another process holds the call from now on; what is wished stands in the entry that put the question."""
    told: Mapping[str, Any] = next(
        (restore(entry.body) for entry in earlier if entry.kind == "held" and entry.body), {}
    )
    body: dict[str, Any] = {
        "bound_hash": question.bound_hash,
        "decision": "ask",
        "expires_at": iso(question.expires_at),
        "instance": instance,
        "nonce": question.nonce,
        "salt": salt,
        "signatures": list(question.signatures),
    }
    body |= {key: told[key] for key in ("aliases", "door", "input_hash", "resources", "step_index") if key in told}
    return Draft(
        Kind.HELD,
        iso(at),
        canonical(body),
        question.call_id,
        question.run_id,
        None if question.request_id == question.call_id else question.request_id,
        question.agent_id,
        question.tool,
        "\n".join(question.signatures),
    )


def reserved_by(entries: Sequence[Entry]) -> tuple[Charge, ...]:
    """Charges that the ledger counts for a held call."""
    return tuple(
        Charge(scope, bucket, RESERVED_WINDOW, amount, None, 1012)
        for entry in entries
        if entry.kind == "held" and entry.body
        for scope, bucket, amount in restore(entry.body).get("reserved", ())
    )


def began_at(entries: Sequence[Entry]) -> float | None:
    """The moment when a call began, as its first entry that says so tells."""
    bodies = (restore(entry.body) for entry in entries if entry.body is not None)
    told = next((body["started_at"] for body in bodies if "started_at" in body), None)
    return None if told is None else epoch(told)


def answered(question: Question, resolution: str, by: str, at: float, note: str, salt: str) -> Draft:
    body: dict[str, Any] = {
        "bound_hash": question.bound_hash,
        "nonce": question.nonce,
        "policy_hash": question.policy_hash,
        "resolution": resolution,
        "resolved_at": iso(at),
        "resolved_by": by,
        "salt": salt,
        "signatures": list(question.signatures),
    }
    if note:
        body["note"] = note
    return Draft(
        Kind.ANSWERED,
        iso(at),
        canonical(body),
        question.call_id,
        question.run_id,
        None if question.request_id == question.call_id else question.request_id,
        question.agent_id,
        question.tool,
        "\n".join(question.signatures),
        resolution,
    )


def performing(
    bound: BoundCall,
    facts: Facts,
    verdict: Verdict,
    at: float,
    instance: str,
    salt: str,
    started_at: float | None,
    kept_hash: str | None = None,
    resolution: Mapping[str, str] | None = None,
) -> Draft:
    """The intent: durable before the act, and with it the hash of what was kept to undo it.

    `started_at` is when the call began; None where an earlier entry says so.
    """
    if started_at is None:
        body = _judged_body(bound, facts, verdict)
    else:
        body = _first_body(bound, facts, verdict)
        body["started_at"] = iso(started_at)
    body |= {"instance": instance, "salt": salt}
    if kept_hash is not None:
        body["kept_hash"] = kept_hash
    if bound.request.door:
        body["door"] = bound.request.door
    if resolution:
        body |= resolution
    return _draft(Kind.PERFORMING, bound, at, body, None)


def committing(
    bound: BoundCall,
    verdict: Verdict,
    files: Sequence[Json],
    manifest_hash: str,
    kept_hash: str,
    data: bytes,
    at: float,
    salt: str,
    failure: Problem | None = None,
) -> Draft:
    """That what a command wrote is about to be moved into place: durable before the first step.

    `data` is the canonical result of the command, which a process that finishes the commit will want to tell; so is
    `failure`, where the command said that it failed.
    """
    body = _later_body(bound, verdict)
    body |= {
        "files": part(list(files)),
        "kept_hash": kept_hash,
        "manifest_hash": manifest_hash,
        "reasons": verdict.recorded_reasons,
        "salt": salt,
    }
    if len(data) <= INLINE_DATA_BYTES_MAX:
        body["data"] = Fragment(data)
    if failure is not None:
        body["failure"] = failure.to_json()
    return _draft(Kind.COMMITTING, bound, at, body, None)


def settled(
    bound: BoundCall,
    facts: Facts,
    verdict: Verdict,
    outcome: Outcome,
    first: bool,
    judged_again: bool,
    salt: str,
    output: tuple[bytes, str] | None = None,
    resolution: Mapping[str, str] | None = None,
    state_hash: str | None = None,
) -> Draft:
    """Record the end of a call; `output` is the canonical bytes of its data and their hash."""
    if first:
        body = _first_body(bound, facts, verdict)
    else:
        body = _judged_body(bound, facts, verdict) if judged_again else _later_body(bound, verdict)
    assert outcome.ended_at is not None
    assert outcome.started_at is not None
    body["salt"] = salt
    body["started_at"] = iso(outcome.started_at)
    if output is not None:
        body["output_hash"] = output[1]
        if len(output[0]) <= INLINE_DATA_BYTES_MAX:
            body["data"] = Fragment(output[0])
    if outcome.message:
        body["message"] = outcome.message
    if outcome.error is not None:
        body["error"] = outcome.error.to_json()
    if outcome.files is not None:
        body["files"] = part(list(outcome.files))
        if verdict.decision is not ALLOW:
            body["reasons"] = verdict.recorded_reasons
    if outcome.cost:
        body["cost"] = part(outcome.cost)
    if outcome.state_version is not None:
        body |= _state_fields(outcome, state_hash)
    if resolution:
        body |= resolution
    return _draft(_SETTLED, bound, outcome.ended_at, body, outcome.status.text)


def _state_fields(outcome: Outcome, state_hash: str | None) -> dict[str, Any]:
    """The state in which a pure tool left the project."""
    fields = {
        "state_version": outcome.state_version,
        "state_diff": None if outcome.state_diff is None else part(list(outcome.state_diff)),
        "state_hash": state_hash,
        "snapshot_id": outcome.snapshot_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def reverted(bound: BoundCall, outcome: Outcome, salt: str) -> Draft:
    """The fact that something earlier was undone, beside the call that did it."""
    assert outcome.ended_at is not None
    body = {
        "args": _args(bound),
        "resources": part(dict(bound.resources)),
        "salt": salt,
        "signatures": bound.signatures,
    }
    return _draft(Kind.REVERTED, bound, outcome.ended_at, body, None)


def unbound(request: CallRequest, call_id: str, args: Mapping[str, Json] | None, outcome: Outcome, salt: str) -> Draft:
    """A call that was refused before it could be bound: unknown tool, arguments that do not fit."""
    assert outcome.ended_at is not None
    assert outcome.started_at is not None
    assert outcome.error is not None
    body: dict[str, Any] = {
        "decision": "deny",
        "error": outcome.error.to_json(),
        "salt": salt,
        "signatures": [],
        "started_at": iso(outcome.started_at),
    }
    if args is not None:
        body |= {"args": args, "input_hash": sha256_hex(canonical(args))}
    if request.step_index is not None:
        body["step_index"] = request.step_index
    return Draft(
        Kind.SETTLED,
        iso(outcome.ended_at),
        canonical(body),
        call_id,
        request.run_id,
        request.request_id,
        request.agent.id,
        request.tool,
        None,
        outcome.status.value,
    )


def _first_body(bound: BoundCall, facts: Facts, verdict: Verdict) -> dict[str, Any]:
    """Fields of the wish itself in the call's first entry; later ones refer to it by call id."""
    body = _judged_body(bound, facts, verdict)
    body["args"] = _args(bound)
    return body


def _args(bound: BoundCall) -> Fragment:
    return part(bound.recorded_args) if bound.recorded_json is None else Fragment(bound.recorded_json)


def _judged_body(bound: BoundCall, facts: Facts, verdict: Verdict) -> dict[str, Any]:
    """Fields of an entry that rests on a verdict of its own: after an approval, a call is judged again."""
    body = _later_body(bound, verdict)
    told = facts.to_json(asking_mattered=verdict.decision is not ALLOW)
    body["facts"] = part(told) if facts.found or any(isinstance(used, float) for used in facts.usage.values()) else told
    body["reasons"] = verdict.recorded_reasons
    return body


def _later_body(bound: BoundCall, verdict: Verdict) -> dict[str, Any]:
    body: dict[str, Any] = {
        "decision": verdict.decision.text,
        "input_hash": bound.input_hash,
        "signatures": bound.signatures,
    }
    if bound.aliases:
        body["aliases"] = bound.aliases
    if bound.request.step_index is not None:
        body["step_index"] = bound.request.step_index
    if bound.resources:
        body["resources"] = part(dict(bound.resources))
    return body


def _draft(kind: Kind, bound: BoundCall, at: float, body: Mapping[str, Any], status: str | None) -> Draft:
    request = bound.request
    return Draft(
        kind,
        iso(at),
        composed(body),
        bound.call_id,
        request.run_id,
        request.request_id,
        request.agent.id,
        request.tool,
        "\n".join(bound.signatures),
        status,
    )


def outcome_of(entries: Sequence[Entry], blob: bytes | None = None) -> Outcome | None:
    """The outcome that a call's entries record; None while it has none."""
    ends = [number for number, entry in enumerate(entries) if entry.kind in ("settled", "judged")]
    if not ends:
        return None
    bodies = [restore(entry.body) if entry.body is not None else {} for entry in entries[: ends[-1] + 1]]
    judged: Mapping[str, Any] = {}
    if bodies[-1].get("signatures"):  # a call that could not be bound in the end rests on no verdict
        judged = next((body for body in reversed(bodies) if "reasons" in body), {})
    args = next((body["args"] for body in bodies if "args" in body), None)
    return _outcome(entries[ends[-1]], bodies[-1], judged, args, blob)


def _outcome(
    entry: Entry,
    body: Mapping[str, Any],
    judged: Mapping[str, Any],
    args: Mapping[str, Json] | None,
    blob: bytes | None,
) -> Outcome:
    """`judged` is the body of the entry that says why."""
    diff = body.get("state_diff")
    error = body.get("error")
    assert entry.status is not None
    return Outcome(
        call_id=entry.call_id or "",
        request_id=entry.request_id or "",
        status=Status(entry.status),
        data=body.get("data", None if blob is None else restore(blob)),
        message=body.get("message", "" if entry.body is not None else "erased"),
        error=Problem.from_json(error) if error else None,
        signatures=tuple(body.get("signatures", ())),
        decision=Decision(body["decision"]) if body.get("decision") else None,
        reasons=tuple(reason_of(fields, Decision(judged["decision"])) for fields in judged.get("reasons", ())),
        state_version=body.get("state_version"),
        state_diff=None if diff is None else tuple(diff),
        snapshot_id=body.get("snapshot_id"),
        files=tuple(body["files"]) if "files" in body else None,
        cost=body.get("cost"),
        started_at=epoch(body["started_at"]) if "started_at" in body else None,
        ended_at=epoch(entry.at),
        tool=entry.tool or "",
        args=args,
    )


def reason_of(fields: Mapping[str, str], decision: Decision) -> Reason:
    """A recorded reason; only those are recorded that carried the decision."""
    return Reason(fields["layer"], decision, fields.get("rule", ""), fields.get("text", ""))


def answered_by(entry: Entry) -> str:
    return str(restore(entry.body)["resolved_by"]) if entry.body else ""


def answered_at(entry: Entry) -> float:
    return epoch(entry.at)
