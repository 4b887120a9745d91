"""Trying a policy on the past: which recorded calls would have been judged otherwise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from agent_gate.history.rejudge import RecordedCall, Rejudge, verdict_by_names
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.judge import Judge
from agent_gate.ports.reading import Reader

FLIPS_LISTED_MAX = 10_000
QUESTIONS_KEPT_MAX = 50_000


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


def try_policy(reader: Reader, judge: Judge, since: float | None = None) -> Trial:
    """Judge every recorded call again; nothing is done and nothing is written."""
    rejudge, trial = Rejudge(reader), Trial()
    decisions = _Decisions(rejudge, judge)
    for call in rejudge.calls(since):
        trial.judged += 1
        would_be = decisions.of(call)
        if would_be is not call.decision:
            _count(trial, call.decision, would_be)
            if len(trial.flips) < FLIPS_LISTED_MAX:
                trial.flips.append(_flip(call, decisions.verdict(call)))
    return trial


class _Decisions:
    """The decisions of one judge on recorded calls; agents repeat themselves, and the same question is judged once."""

    def __init__(self, rejudge: Rejudge, judge: Judge) -> None:
        self._rejudge, self._judge = rejudge, judge
        self._known: dict[int, dict[bytes, Decision]] = {}
        """By the declaration itself, which the record keeps alive: what a tool of one name says may change."""

    def verdict(self, call: RecordedCall) -> Verdict:
        return self._rejudge.verdict(call, self._judge, as_it_was=False)

    def of(self, call: RecordedCall) -> Decision:
        tool = self._rejudge.tool_of(call)
        if self._judge.goes_by_names_alone(tool):
            return verdict_by_names(call, tool, self._judge).decision  # the judge keeps such answers itself
        if not self._judge.goes_by_call_alone(tool):
            return self.verdict(call).decision
        known, question = self._known.setdefault(id(tool), {}), call.question
        decision = known.get(question)
        if decision is None:
            decision = self.verdict(call).decision
            if len(known) < QUESTIONS_KEPT_MAX:
                known[question] = decision
        return decision


def _count(trial: Trial, was: Decision, would_be: Decision) -> None:
    trial.newly_allowed += would_be is Decision.ALLOW
    trial.newly_denied += would_be is Decision.DENY
    trial.approvals_saved += was is Decision.ASK
    trial.approvals_added += would_be is Decision.ASK


def _flip(call: RecordedCall, verdict: Verdict) -> Flip:
    return Flip(
        call.call_id,
        call.project,
        call.agent_id,
        call.at,
        call.signatures,
        call.decision.value,
        verdict.decision.value,
        tuple(reason.to_json() for reason in verdict.reasons),
    )
