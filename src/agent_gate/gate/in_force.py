"""The policy in force, as everything of one gate sees it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.policy.judge import Judge


@dataclass(slots=True)
class InForce:
    """Holds the judge; a reload puts another one in its place, and whatever is judged afterwards meets that one."""

    judge: Judge
