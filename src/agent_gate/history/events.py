"""Events at the gate itself, beside the calls: policies, the switch, and who was refused at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_gate.model.codec import restore
from agent_gate.model.entry import GATE_PROJECT, Entry
from agent_gate.ports.reading import EntryFilter, Reader


@dataclass(frozen=True, slots=True)
class GateEvent:
    at: str
    seq: int
    text: str


def last_events(reader: Reader, limit: int) -> list[GateEvent]:
    """The newest first, each in one sentence."""
    entries = reader.entries(EntryFilter(project=GATE_PROJECT), newest_first=True, limit=limit)
    return [GateEvent(entry.at, entry.seq, _told(entry)) for entry in entries]


def _told(entry: Entry) -> str:
    status = entry.status
    try:
        fields = restore(entry.body) if entry.body is not None else {}
    except ValueError:
        fields = {}
    match entry.kind, fields:
        case "policy", {"policy_hash": str(hash)}:
            return f"policy {hash[:12]} came into force"
        case "tools", _:
            return "the tools that are offered were recorded"
        case "project", {"action": action, "by": by}:
            return f"{action} by {by}" + (f": {fields['reason']}" if fields.get("reason") else "")
        case "clock", {"by_s": float() | int() as by_s}:
            return f"the clock was set {status} by {abs(by_s):,.0f} s"
        case "schema", _:
            return f"the ledger was brought to schema {status}"
        case "contact", {"by": by, "key": key}:
            return f"the owner's `{key}` was {status} by {by}"
        case "door", {"refused": list(refused)}:
            return "; ".join(_refused(line) for line in refused)
        case "door", {"refused_answer": {"answer": answer, "by": by, "call_id": call_id, "error": error}}:
            return f"the answer `{answer}` of {by} to call {call_id} did not count: {error.get('detail', '')}"
        case _:
            return entry.kind


def _refused(line: Mapping[str, Any]) -> str:
    times = "once" if line.get("count") == 1 else f"{line.get('count')} times"
    return f"{line.get('agent_id')} was turned away: {line.get('why')}, {times}"
