"""The report of one run: what was planned, what happened to each step, and what was touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_gate.history import run_rows
from agent_gate.history.touched import attempts, resources
from agent_gate.model.codec import restore
from agent_gate.model.entry import GATE_PROJECT, Entry, Kind
from agent_gate.model.errors import ReplayError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.record import output_blob
from agent_gate.ports.reading import EntryFilter, Reader

REPORT_VERSION = "1.0"


def run_of(reader: Reader, run_id: str) -> dict[str, Any]:
    """The run as `run_rows` shows it; an id may be shortened while only one run has it."""
    rows = list(reader.runs(beginning=run_id, limit=2))
    if len(rows) != 1:
        raise _no_such_run(reader, run_id, several=bool(rows))
    return run_rows.shown(reader, rows[0])


def _no_such_run(reader: Reader, run_id: str, *, several: bool) -> ReplayError:
    if several:
        return ReplayError(f"several runs begin with `{run_id}`", code=4001, suggestion="see `agent-gate list-runs`")
    if any(entry.project != GATE_PROJECT for entry in reader.entries(EntryFilter(run_id=run_id))):
        # Calls are there, and what wrote them down wrote the beginning of the run before.
        return ReplayError(
            f"the beginning of run `{run_id}` is missing", code=4004, suggestion="run `agent-gate verify`"
        )
    return ReplayError(f"there is no run `{run_id}`", code=4001, suggestion="see `agent-gate list-runs`")


def build_report(reader: Reader, run_id: str, now: float) -> dict[str, Any]:
    """The document's structure: metadata, plan, policy, steps and a summary."""
    with reader.one_moment():
        run = run_of(reader, run_id)
        steps = steps_shown(reader, run)
    plan, policy = read_json(run["plan_json"]), read_json(run["policy_json"])
    _add_names(steps, plan)
    made = [] if "original_run_id" in run else steps  # in a replay, nothing is
    return {
        "report_version": REPORT_VERSION,
        "generated_at": iso(now),
        "run": {key: value for key, value in run.items() if key not in ("plan_json", "policy_json")},
        "plan": plan,
        "policy": policy,
        "steps": steps,
        "summary": {
            "total_duration_ms": _duration_ms(run["created_at"], run["completed_at"]),
            "statuses": _counts(step["result"]["status"] for step in steps),
            "denials": [_denial(step) for step in steps if step["result"]["status"] in ("denied", "expired")],
            "resources": resources(made),
            "attempts": attempts(made),
            "sandboxes": _sandboxes(made, policy),
            "direct_writes": any(_wrote_directly(step) for step in made),
        },
    }


def read_json(text: str | None) -> Any:
    """None also for what no longer is JSON: that it was changed is for others to tell."""
    try:
        return None if text is None else restore(text.encode())
    except ValueError:
        return None


def steps_shown(reader: Reader, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a run; those of a replay are its original's, each with what the replay found of it."""
    if "original_run_id" not in run:
        return steps_of(reader, run["run_id"])
    recorded = {step["call_id"]: step for step in steps_of(reader, run["original_run_id"])}
    found = reader.entries(EntryFilter(run_id=run["run_id"], kinds=(Kind.REPLAYED,)))
    return [_replayed(recorded.get(entry.call_id or ""), entry) for entry in found]


def _replayed(step: dict[str, Any] | None, entry: Entry) -> dict[str, Any]:
    fields = read_json(None if entry.body is None else entry.body.decode()) or {}
    if step is None:  # the original is not there any more
        recorded = {"status": fields.get("recorded_status", "unknown")}
        step = {"call_id": entry.call_id, "tool_name": entry.tool, "result": recorded}
        step |= {"step_index": fields["step_index"]} if "step_index" in fields else {}
    told = {key: fields[key] for key in ("mismatches", "not_recomputed", "changes") if key in fields}
    return {**step, "replayed": {"finding": entry.status, **told}}


def steps_of(reader: Reader, run_id: str) -> list[dict[str, Any]]:
    """Each call of a run with what was reached; the entries of one call are folded into one step."""
    folded: dict[str, dict[str, Any]] = {}
    for entry in reader.entries(EntryFilter(run_id=run_id)):
        call_id, kind, at, status = entry.call_id, entry.kind, entry.at, entry.status or ""
        if call_id is None:
            continue
        fields: dict[str, Any] = restore(entry.body) if entry.body is not None else {"erased": True}
        step = folded.setdefault(call_id, {"call_id": call_id, "tool_name": entry.tool, "agent_id": entry.agent_id})
        if kind in ("held", "performing", "settled"):
            _add_wish(step, fields, at)
        if kind == "answered":
            step["approval"] = {
                key: fields[key] for key in ("resolution", "resolved_by", "resolved_at") if fields.get(key)
            }
        if kind == "performing":
            step["intended"] = True
        if kind == "committing":
            step["committed"] = True
        if kind == "settled":
            step["result"] = _result(reader, call_id, at, status, fields)
        if kind == "effect":
            step.setdefault("effects", []).append({"status": status, "at": at})
    for step in folded.values():
        step.setdefault("result", {"status": "unknown"})
    return sorted(folded.values(), key=lambda step: step.get("step_index", 1 << 30))


def _add_names(steps: Iterable[dict[str, Any]], plan: Mapping[str, Any] | None) -> None:
    """Add what the plan calls its steps."""
    planned = plan["steps"] if plan else []
    for step in steps:
        index = step.get("step_index")
        if index is not None and index < len(planned) and planned[index].get("name"):
            step["name"] = planned[index]["name"]


def _add_wish(step: dict[str, Any], fields: Mapping[str, Any], at: str) -> None:
    for key in ("args", "signatures", "reasons", "resources", "step_index"):
        if key in fields:
            step.setdefault(key, fields[key])
    step.setdefault("created_at", fields.get("started_at", at))
    if "decision" in fields:
        step["decision"] = fields["decision"]
    if fields.get("erased"):
        step["erased"] = True


_TOLD = ("data", "message", "error", "input_hash", "output_hash", "cost", "files", "state_diff", "state_version")


def _result(reader: Reader, call_id: str, at: str, status: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    started_at = fields.get("started_at", at)
    result = {
        "status": status,
        "started_at": started_at,
        "ended_at": at,
        "duration_ms": _duration_ms(started_at, at),
    }
    for key in _TOLD:
        if key in fields:
            result[key] = fields[key]
    if "output_hash" in fields and "data" not in fields:
        stored = reader.blob(output_blob(call_id))
        if stored is not None:
            result["data"] = restore(stored)
    return result


def _duration_ms(start: str, end: str | None) -> float | None:
    return None if end is None else round((epoch(end) - epoch(start)) * 1000, 3)


def _counts(statuses: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status] = counts.get(status, 0) + 1
    return counts


def _denial(step: Mapping[str, Any]) -> dict[str, Any]:
    error = step["result"].get("error", {})
    return {
        "step_index": step.get("step_index"),
        "signatures": step.get("signatures", []),
        "reason": error.get("detail", ""),
        "remedy": error.get("suggestion", ""),
        "code": error.get("code"),
    }


def _sandboxes(steps: Iterable[Mapping[str, Any]], policy: Mapping[str, Any] | None) -> list[str]:
    """The walls that commands ran in; `off` also where the policy only would have let them run without one."""
    used = {step["resources"]["sandbox"] for step in steps if step.get("resources", {}).get("executable")}
    section = (policy or {}).get("tools", {}).get("shell.run", {})
    return sorted(used | ({"off"} if section.get("sandbox") == "off" else set()))


def _wrote_directly(step: Mapping[str, Any]) -> bool:
    """Past all judgement, though in a sandbox; without one that goes without saying."""
    resources: Mapping[str, Any] = step.get("resources", {})
    return bool(resources.get("writes") == "direct" and resources.get("sandbox") != "off")
