"""The record of a replay: a run of its own, with an entry for each step that says what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from agent_gate.history.replay_words import AS_RECORDED, BROKEN, NOT_RECOMPUTED
from agent_gate.history.run_rows import COUNTERS
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.policy import Policy
from agent_gate.model.work import KeepBlob, Work
from agent_gate.ports.surroundings import Ids

MISMATCHES_TOLD_MAX = 1_000
"""That concern no step; those of a step stand with it."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where the record and its replay part."""

    code: int
    what: str
    call_id: str = ""
    step_index: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A step that could not be computed again here, and why."""

    why: str
    call_id: str
    step_index: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


Found = TypeVar("Found", Mismatch, NotCompared)


@dataclass(frozen=True, slots=True)
class Examined:
    """A run, and what its replay found."""

    run: Mapping[str, Any]
    project: str
    steps: list[dict[str, Any]]
    mismatches: list[Mismatch]
    changes: list[Mismatch]
    not_recomputed: list[NotCompared]


def work(examined: Examined, run_id: str, instance: str, at: str, ids: Ids, other: Policy | None) -> Work:
    """All of it in one transaction: nothing is under way in a replay."""
    begin, end = _beginning(examined, instance, ids), _end(examined, ids)
    blobs: tuple[KeepBlob, ...] = ()
    if other is not None:
        source = canonical(dict(other.source))
        begin["other_policy_hash"] = sha256_hex(source)
        blobs = (KeepBlob(sha256_hex(source), source),)
    status = "failed" if examined.mismatches else "completed"
    drafts = (
        Draft(Kind.RUN, at, canonical(begin), run_id=run_id, status="running"),
        *_steps(examined, run_id, at, ids),
        Draft(Kind.RUN, at, canonical(end), run_id=run_id, status=status),
    )
    return Work(examined.project, drafts, blobs)


def _beginning(examined: Examined, instance: str, ids: Ids) -> dict[str, Any]:
    run = examined.run
    return {
        "instance": instance,
        "mode": "replay",
        "original_run_id": run["run_id"],
        "plan_hash": run["plan_hash"],
        "policy_hash": run["policy_hash"],
        "salt": ids.salt(),
        "total_steps": run["total_steps"],
    }


def _end(examined: Examined, ids: Ids) -> dict[str, Any]:
    """The counters say how the steps ended when they were made; the findings, whether that still holds."""
    statuses = [step["result"]["status"] for step in examined.steps]
    counts = (
        statuses.count("success"),
        statuses.count("denied") + statuses.count("expired"),
        statuses.count("error") + statuses.count("unknown"),
    )
    return {
        **dict(zip(COUNTERS, counts, strict=True)),
        "mismatches": [mismatch.to_json() for mismatch in examined.mismatches[:MISMATCHES_TOLD_MAX]],
        "not_recomputed": len(examined.not_recomputed),
        "salt": ids.salt(),
    }


def _steps(examined: Examined, run_id: str, at: str, ids: Ids) -> Iterator[Draft]:
    mismatches, changes = _by_call(examined.mismatches), _by_call(examined.changes)
    reasons = _by_call(examined.not_recomputed)
    for step in examined.steps:
        call_id = step["call_id"]
        body: dict[str, Any] = {"recorded_status": step["result"]["status"], "salt": ids.salt()}
        if "step_index" in step:
            body["step_index"] = step["step_index"]
        if call_id in mismatches:
            body["mismatches"] = [{"code": one.code, "what": one.what} for one in mismatches[call_id]]
        if call_id in changes:
            body["changes"] = [one.what for one in changes[call_id]]
        if call_id in reasons:
            body["not_recomputed"] = [one.why for one in reasons[call_id]]
        status = BROKEN if call_id in mismatches else NOT_RECOMPUTED if call_id in reasons else AS_RECORDED
        yield Draft(Kind.REPLAYED, at, canonical(body), call_id, run_id, tool=step["tool_name"], status=status)


def _by_call(found: Sequence[Found]) -> dict[str, list[Found]]:
    by_call: dict[str, list[Found]] = {}
    for one in found:
        by_call.setdefault(one.call_id, []).append(one)
    return by_call
