"""The six stages of one call, as its entries tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_gate.doors.console.shown import duration_ms
from agent_gate.model.entry import Entry
from agent_gate.model.outcome import Outcome

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    state: str
    """`done`, `stopped` where the call ended here, `skipped` where it did not come to it, `now` where it is"""
    text: str
    at: str | None = None
    took: str = ""
    reasons: Sequence[Mapping[str, str]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def stages_of(entries: Sequence[Entry], bodies: Sequence[Body], outcome: Outcome | None) -> list[Stage]:
    told = list(zip(entries, bodies, strict=True))
    stopped_at = outcome.error.stage if outcome and outcome.error else ""
    stages = [
        _admit(told),
        _bind(told, outcome),
        _decide(told),
        _hold(told, outcome),
        _perform(told, outcome),
        _settle(told, outcome),
    ]
    names = [stage.name for stage in stages]
    if stopped_at not in names[:-1]:
        return stages
    # A call that was refused did not come to what lies behind, except that this was written down.
    place = names.index(stopped_at)
    ahead = [
        Stage(stage.name, "skipped", "not reached") if stage.state != "done" or stage.at is None else stage
        for stage in stages[place + 1 : -1]
    ]
    here = stages[place]
    stopped = Stage(here.name, "stopped", here.text, here.at, here.took, here.reasons, here.facts)
    return [*stages[:place], stopped, *ahead, stages[-1]]


def _of(told: Sequence[tuple[Entry, Body]], *kinds: str) -> list[tuple[Entry, Body]]:
    return [(entry, body) for entry, body in told if entry.kind in kinds]


def _started(told: Sequence[tuple[Entry, Body]]) -> str:
    return str(next((body["started_at"] for _, body in told if "started_at" in body), told[0][0].at))


def _admit(told: Sequence[tuple[Entry, Body]]) -> Stage:
    first, _ = told[0]
    door = next((body["door"] for _, body in told if "door" in body), "")
    return Stage("admit", "done", f"agent {first.agent_id}" + (f" by {door}" if door else ""), _started(told))


def _bind(told: Sequence[tuple[Entry, Body]], outcome: Outcome | None) -> Stage:
    body = next((body for _, body in told if body.get("signatures")), {})
    if not body:
        return Stage("bind", "done" if outcome and outcome.ok else "skipped", "no signature")
    count = len(body["signatures"])
    facts = {key: body[key] for key in ("resources", "input_hash", "bound_hash") if key in body}
    return Stage("bind", "done", f"{count} signature{'' if count == 1 else 's'}", facts=facts)


def _decide(told: Sequence[tuple[Entry, Body]]) -> Stage:
    judged = [(entry, body) for entry, body in told if "reasons" in body]
    if not judged:
        return Stage("decide", "skipped", "not judged")
    first, last = judged[0][1], judged[-1][1]
    text = first.get("decision", "")
    if len(judged) > 1:
        again = last.get("decision", "")
        text = f"{text}; judged again after the answer" + ("" if again == text else f": {again}")
    facts = {"policy": last["facts"]["policy"]} if "policy" in last.get("facts", {}) else {}
    return Stage("decide", "done", text, reasons=tuple(last["reasons"]), facts=facts)


def _hold(told: Sequence[tuple[Entry, Body]], outcome: Outcome | None) -> Stage:
    held, answers = _of(told, "held"), _of(told, "answered")
    if not held:
        granted = next((body for _, body in told if body.get("resolution") == "granted"), None)
        if granted:
            return Stage("hold", "done", f"covered by a grant of {granted.get('resolved_by', 'somebody')}")
        return Stage("hold", "skipped", "nobody had to be asked")
    at = held[0][0].at
    if not answers:
        return Stage("hold", "now" if outcome is None else "done", "waits for a person", at)
    said = "; ".join(_answer(body) for _, body in answers)
    stopped = answers[-1][1].get("resolution") != "approved"
    return Stage("hold", "stopped" if stopped else "done", said, at, duration_ms(at, answers[-1][0].at))


def _answer(body: Body) -> str:
    by, note = body.get("resolved_by"), body.get("note")
    return f"{body.get('resolution', 'ended')}{f' by {by}' if by else ''}{f', “{note}”' if note else ''}"


def _perform(told: Sequence[tuple[Entry, Body]], outcome: Outcome | None) -> Stage:
    performing, settled = _of(told, "performing"), _of(told, "settled")
    if performing:
        at, end = performing[0][0].at, settled[-1][0].at if settled else None
        done = outcome is not None
        return Stage(
            "perform",
            "done" if done else "now",
            "performed" if done else "is being performed",
            at,
            duration_ms(at, end),
        )
    if outcome and outcome.ok:
        return Stage("perform", "done", "performed; a read or a change of state needs no intent before it")
    return Stage("perform", "skipped", "not performed")


def _settle(told: Sequence[tuple[Entry, Body]], outcome: Outcome | None) -> Stage:
    settled = _of(told, "settled", "judged")
    if not settled or outcome is None:
        return Stage("settle", "skipped", "not settled yet")
    entry = settled[-1][0]
    text = f"{outcome.status.value}{f': {outcome.message}' if outcome.message else ''}"
    return Stage("settle", "done" if outcome.ok else "stopped", text, entry.at, duration_ms(_started(told), entry.at))
