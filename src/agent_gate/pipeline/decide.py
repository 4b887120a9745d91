"""Decide: a pure function of the bound call, its facts and the policy says whether it may be done."""

from __future__ import annotations

from agent_gate.model.verdict import Verdict
from agent_gate.policy.judge import Judge
from agent_gate.ports import Prepared


def decide(prepared: Prepared, judge: Judge) -> Verdict:
    return judge.decide(prepared.call, prepared.facts, prepared.hand.declaration)
