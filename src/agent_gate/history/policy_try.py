"""Trying a policy on the past: which recorded calls would have been judged otherwise."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_gate.history.rejudge import RecordedCall, Rejudge
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.judge import Judge

FLIPS_LISTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Flip:
    """One call whose verdict changes."""

    call_id: str
    project: str
    agent_id: str
    at: str
    signatures: tuple[str, ...]
    was: str
    would_be: str
    reasons: tuple[dict[str, str], ...]


@dataclass(slots=True)
class Trial:
    judged: int = 0
    newly_allowed: int = 0
    newly_denied: int = 0
    approvals_saved: int = 0
    approvals_added: int = 0
    flips: list[Flip] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def try_policy(reader: sqlite3.Connection, judge: Judge, since: float | None = None) -> Trial:
    """Judge every recorded call again; nothing is done and nothing is written."""
    rejudge, trial = Rejudge(reader), Trial()
    for call in rejudge.calls(since):
        trial.judged += 1
        verdict = rejudge.verdict(call, judge, as_it_was=False)
        if verdict.decision is not call.decision:
            _count(trial, call.decision, verdict.decision)
            if len(trial.flips) < FLIPS_LISTED_MAX:
                trial.flips.append(_flip(call, verdict))
    return trial


def _count(trial: Trial, was: Decision, would_be: Decision) -> None:
    trial.newly_allowed += would_be is Decision.ALLOW
    trial.newly_denied += would_be is Decision.DENY
    trial.approvals_saved += was is Decision.ASK
    trial.approvals_added += would_be is Decision.ASK


def _flip(call: RecordedCall, verdict: Verdict) -> Flip:
    return Flip(
        call.call_id,
        call.project,
        call.bound.request.agent.id,
        call.at,
        call.bound.signatures,
        call.decision.value,
        verdict.decision.value,
        tuple(reason.to_json() for reason in verdict.reasons),
    )
