"""Entries of a request that is judged here and performed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agent_gate.model import record
from agent_gate.model.approval import Question
from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.codec import canonical, restore
from agent_gate.model.entry import Draft, Entry, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome
from agent_gate.model.verdict import Verdict


def judged(
    bound: BoundCall,
    facts: Facts,
    verdict: Verdict,
    outcome: Outcome,
    *,
    first: bool,
    salt: str,
    resolution: Mapping[str, str] | None = None,
) -> Draft:
    """Record whether it may pass; `first` False: a question about it stands in the record already."""
    draft = record.settled(
        bound, facts, verdict, outcome, first=first, judged_again=not first, salt=salt, resolution=resolution
    )
    return replace(draft, kind=Kind.JUDGED)


def given_up(
    question: Question, earlier: Sequence[Entry], problem: Problem, resolution: Mapping[str, str], at: float, salt: str
) -> Draft:
    """That nothing comes of a question any more; the wish stands in the entry that put it."""
    told = _held(earlier)
    body: dict[str, Any] = {
        "decision": "ask",
        "error": problem.to_json(),
        "salt": salt,
        "signatures": list(question.signatures),
        "started_at": iso(question.created_at),
        **resolution,
    }
    body |= {key: told[-1][key] for key in ("input_hash", "resources") if told and key in told[-1]}
    return Draft(
        Kind.JUDGED,
        iso(at),
        canonical(body),
        question.call_id,
        agent_id=question.agent_id,
        tool=question.tool,
        signature="\n".join(question.signatures),
        status="expired" if problem.code == 1016 else "denied",
    )


def held_by(earlier: Sequence[Entry]) -> str:
    """The instance that holds the question now."""
    told = _held(earlier)
    return str(told[-1]["instance"]) if told else ""


def _held(earlier: Sequence[Entry]) -> list[Mapping[str, Any]]:
    return [restore(entry.body) for entry in earlier if entry.kind == "held" and entry.body]
