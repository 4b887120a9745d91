"""The report of one run: what was planned, what happened to each step, and what was touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from agent_gate.history.query import RUN_COLUMNS
from agent_gate.ledger.reader import one_moment, row_of, rows_of
from agent_gate.model.codec import restore
from agent_gate.model.errors import ReplayError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.record import output_blob

REPORT_VERSION = "1.0"


def run_of(reader: sqlite3.Connection, run_id: str) -> dict[str, Any]:
    """The row of the view `runs`, and of a replay its original; an id may be shortened while only one run has it."""
    columns = ", ".join(RUN_COLUMNS)
    rows = list(
        rows_of(
            reader,
            f"SELECT {columns} FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 2",  # noqa: S608
            run_id,
            run_id + "~",
        )
    )
    if len(rows) != 1:
        found = "several runs begin with" if rows else "there is no run"
        raise ReplayError(f"{found} `{run_id}`", code=4001, suggestion="see `agent-gate list-runs`")
    run = dict(zip(RUN_COLUMNS, rows[0], strict=True))
    original = row_of(
        reader,
        "SELECT body ->> '$.original_run_id' FROM entries WHERE run_id = ? AND kind = 'run' ORDER BY id LIMIT 1",
        run["run_id"],
    )
    return {**run, "original_run_id": original[0]} if original and original[0] else run


def build_report(reader: sqlite3.Connection, run_id: str, now: float) -> dict[str, Any]:
    """The document's structure: metadata, plan, policy, steps and a summary."""
    with one_moment(reader):
        run = run_of(reader, run_id)
        steps = steps_of(reader, run["run_id"])
    plan = restore(run["plan_json"].encode()) if run["plan_json"] else None
    policy = restore(run["policy_json"].encode()) if run["policy_json"] else None
    _add_names(steps, plan)
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
            "resources": _resources(steps),
            "sandboxes": _sandboxes(steps, policy),
            "direct_writes": any(_wrote_directly(step) for step in steps),
        },
    }


def steps_of(reader: sqlite3.Connection, run_id: str) -> list[dict[str, Any]]:
    """Each call of a run with what was reached; the entries of one call are folded into one step."""
    folded: dict[str, dict[str, Any]] = {}
    rows = rows_of(
        reader,
        "SELECT call_id, kind, at, tool, status, agent_id, body FROM entries"
        " WHERE run_id = ? AND call_id IS NOT NULL ORDER BY id",
        run_id,
    )
    for call_id, kind, at, tool, status, agent_id, body in rows:
        fields: dict[str, Any] = restore(body.encode()) if body is not None else {"erased": True}
        step = folded.setdefault(call_id, {"call_id": call_id, "tool_name": tool, "agent_id": agent_id})
        if kind in ("held", "performing", "settled"):
            _add_wish(step, fields, at)
        if kind == "answered":
            step["approval"] = {
                key: fields[key] for key in ("resolution", "resolved_by", "resolved_at") if fields.get(key)
            }
        if kind == "settled":
            step["result"] = _result(reader, call_id, at, status, fields)
        if kind == "effect":
            step.setdefault("effects", []).append({"status": status, "at": at})
    for step in folded.values():
        step.setdefault("result", {"status": "unknown"})
    return sorted(folded.values(), key=lambda step: step.get("step_index", 1 << 30))


def _add_names(steps: Iterable[dict[str, Any]], plan: Mapping[str, Any] | None) -> None:
    """What the plan calls its steps."""
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


def _result(
    reader: sqlite3.Connection, call_id: str, at: str, status: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
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
        blob = row_of(reader, "SELECT data FROM blobs WHERE hash = ?", output_blob(call_id))
        if blob:
            result["data"] = restore(bytes(blob[0]))
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


def _resources(steps: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What the successful steps touched, by kind; each once, sorted."""
    touched: dict[str, set[str]] = {
        "files_read": set(),
        "files_written": set(),
        "domains_contacted": set(),
        "commands_run": set(),
        "other_calls": set(),
    }
    for step in steps:
        if step["result"]["status"] != "success":
            continue
        for signature in step.get("signatures", ()):
            kind, name = _touched(signature)
            touched[kind].add(name)
        touched["files_written"].update(file["path"] for file in step["result"].get("files", ()))
        if step["tool_name"] == "http.get":
            touched["domains_contacted"].update(_hosts(step["result"].get("data")))
    return {kind: sorted(names) for kind, names in touched.items()}


def _sandboxes(steps: Iterable[Mapping[str, Any]], policy: Mapping[str, Any] | None) -> list[str]:
    """The walls that commands ran in; `off` also where the policy only would have let them run without one."""
    used = {step["resources"]["sandbox"] for step in steps if step.get("resources", {}).get("executable")}
    section = (policy or {}).get("tools", {}).get("shell.run", {})
    return sorted(used | ({"off"} if section.get("sandbox") == "off" else set()))


def _wrote_directly(step: Mapping[str, Any]) -> bool:
    """Past all judgement, though in a sandbox; without one that goes without saying."""
    resources: Mapping[str, Any] = step.get("resources", {})
    return bool(resources.get("writes") == "direct" and resources.get("sandbox") != "off")


def _hosts(data: Any) -> Iterable[str]:
    """Where a fetch went in the end, and on the way."""
    urls = [data.get("url"), *data.get("redirects", ())] if isinstance(data, dict) else []
    return [url.partition("://")[2].partition("/")[0] for url in urls if isinstance(url, str)]


def _touched(signature: str) -> tuple[str, str]:
    tool, _, rest = signature.partition("(")
    inside = rest.removesuffix(")")
    match tool:
        case "fs.read":
            return "files_read", inside
        case "fs.write":
            return "files_written", inside
        case "http.get":
            return "domains_contacted", inside.partition("://")[2].partition("/")[0]
        case "shell.run":
            return "commands_run", inside
        case _:
            return "other_calls", signature
