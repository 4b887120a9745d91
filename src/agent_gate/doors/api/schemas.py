"""The shapes of the HTTP API as JSON Schema: what is taken is checked by them, what is given is described by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from agent_gate.config.plan_file import PLAN_FORMAT
from agent_gate.history.query import OUTCOMES, RUN_COLUMNS
from agent_gate.model.bounds import (
    ACKNOWLEDGED_MAX,
    GRANT_SECONDS_MAX,
    GRANT_USES_MAX,
    IDENTIFIER_CHARS_MAX,
    INTEGER_MAX,
    NOTE_CHARS_MAX,
    PAGE_MAX,
)
from agent_gate.model.errors import NAMES
from agent_gate.model.outcome import SIMULATIONS, Status
from agent_gate.model.tool import Effect, Mode, Risk
from agent_gate.model.verdict import Decision

Schema: TypeAlias = dict[str, Any]

_PREFIX = "#/components/schemas/"


def ref(name: str) -> Schema:
    return {"$ref": f"{_PREFIX}{name}"}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, **more: Any) -> Schema:
    """An object of exactly these fields."""
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {**required, **(optional or {})},
        **more,
    }
    if required:
        schema["required"] = list(required)
    return schema


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def text(description: str = "", *, shortest: int = 0, longest: int | None = None) -> Schema:
    schema: Schema = {"type": "string"}
    if shortest:
        schema["minLength"] = shortest
    if longest is not None:
        schema["maxLength"] = longest
    if description:
        schema["description"] = description
    return schema


def name_of(description: str) -> Schema:
    return text(description, shortest=1, longest=IDENTIFIER_CHARS_MAX)


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


OBJECT: Schema = {"type": "object"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
DECISION = one_of(*(decision.value for decision in Decision))
MODE = one_of(*(mode.value for mode in Mode))
ID: Schema = {"type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$"}
"""Of calls, runs, grants and snapshots: made by the gate."""
PROJECT: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$",
    "default": "default",
    "description": "The project that it is about.",
}
LIMIT: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": PAGE_MAX,
    "default": 100,
    "description": "How many at most, the newest first.",
}
SINCE: Schema = {
    "description": "A moment, or how long ago: `2026-11-15T08:00:00Z`, `2h`, `7d`.",
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": "^[0-9]{1,6}[smhdw]$"}],
}

_JSON: Schema = {
    "description": f"Any JSON; numbers lie within ±{INTEGER_MAX}, so that every reader sees the same ones.",
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", "minimum": -INTEGER_MAX, "maximum": INTEGER_MAX},
        {"type": "array", "items": ref("Json")},
        {"type": "object", "additionalProperties": ref("Json")},
    ],
}
_ARGS: Schema = {"type": "object", "additionalProperties": ref("Json"), "description": "The arguments of the tool."}

_ERROR = record(
    {"code": {"type": "integer", "enum": list(NAMES)}, "name": one_of(*NAMES.values())},
    {"stage": text("The stage that refused."), "detail": text(), "suggestion": text("What to do about it.")},
)
_REASON = record({"layer": text()}, {"rule": text(), "text": text()})
_FILE_CHANGE = record({"path": text(), "change": one_of("added", "changed", "removed", "mode"), "bytes": WHOLE})
_OUTCOME = record(
    {"status": one_of(*(status.value for status in Status))},
    {
        "request_id": text("Yours, or the call id where you gave none.", shortest=1),
        "call_id": text("Absent where nothing was called.", shortest=1),
        "data": {"description": "What the tool gave."},
        "message": text(),
        "error": ref("Error"),
        "signatures": listed({"type": "string"}),
        "decision": DECISION,
        "reasons": listed(ref("Reason")),
        "simulated": TRUTH,
        "simulation": text(f"What a simulation has done with the call: {', '.join(SIMULATIONS)}."),
        "state_version": WHOLE,
        "state_diff": listed(OBJECT, description="RFC 6902."),
        "snapshot_id": text(),
        "files": listed(ref("FileChange"), description="What a command changed, or would have."),
        "cost": {"type": "number"},
        "started_at": MOMENT,
        "ended_at": MOMENT,
        "expires_at": MOMENT,
    },
    description="How a call ended, or `pending_approval`; absent fields are left out.",
)

_CALL = record(
    {"tool": name_of("The tool to call."), "args": ref("Args")},
    {
        "request_id": name_of("Makes a repeated request safe: the same id answers with the same outcome."),
        "project": PROJECT,
        "confirmed": {**TRUTH, "default": False, "description": "The user confirmed it to the agent; no approval."},
        "mode": MODE,
        "wait": {**TRUTH, "default": True, "description": "Wait for a person where one must agree."},
    },
    examples=[
        {"tool": "state.set", "args": {"path": "/greeting", "value": "hello"}, "request_id": "greeting-1"},
        {"tool": "fs.read", "args": {"path": "README.md"}, "project": "default", "mode": "assisted", "wait": False},
    ],
)
_SIMULATED_CALL = record(
    {"tool": name_of("The tool to try."), "args": ref("Args")},
    {"project": PROJECT, "confirmed": {**TRUTH, "default": False}, "mode": MODE},
    examples=[{"tool": "state.get", "args": {"path": ""}}],
)


def _plan() -> Schema:
    """The plan of plan.yaml, here with at least one step and arguments of bounded numbers."""
    schema: Schema = {key: value for key, value in PLAN_FORMAT.schema.items() if key not in ("$schema", "title")}
    steps = schema["properties"]["steps"]
    fields = {**steps["items"]["properties"], "args": ref("Args")}
    steps = {**steps, "minItems": 1, "items": {**steps["items"], "properties": fields}}
    example = {"name": "greet", "steps": [{"tool": "state.get", "args": {"path": ""}}]}
    return {**schema, "properties": {**schema["properties"], "steps": steps}, "examples": [example]}


_COUNT: Schema = {"type": "integer", "minimum": 0}
_RUN_TYPES: Mapping[str, Schema] = {
    "run_id": text(),
    "created_at": MOMENT,
    "mode": or_null(text()),
    "status": one_of("running", "completed", "failed"),
    **dict.fromkeys(("completed_steps", "denied_steps", "failed_steps"), _COUNT),
    "total_steps": or_null(_COUNT),
    "completed_at": or_null(MOMENT),
}
LISTED_RUN_COLUMNS = tuple(column for column in RUN_COLUMNS if column not in ("plan_json", "policy_json"))


def _run(columns: Iterable[str]) -> Schema:
    return record(
        {column: _RUN_TYPES.get(column, or_null(text())) for column in columns},
        {
            "original_run_id": text("Of a replay: the run that was replayed."),
            "error": {**ref("Error"), "description": "Why the run as a whole was refused or broken off."},
        },
    )


_LINE = record(
    {
        "at": MOMENT,
        "project": text(),
        "seq": WHOLE,
        "call_id": text(),
        "request_id": text(),
        "signatures": listed({"type": "string"}),
    },
    {
        "run_id": text(),
        "agent_id": text(),
        "tool": text(),
        "status": one_of(*OUTCOMES),
        "decision": DECISION,
        "resolution": text(),
        "resolved_by": text(),
        "error": ref("Error"),
        "erased": TRUTH,
    },
    description="How one call ended.",
)
UNATTENDED = text("There where the process that holds the call is gone: that, and what comes of a yes.")
_QUESTION = record(
    {
        "call_id": text(),
        "request_id": text(),
        "project": text(),
        "agent_id": text(),
        "tool": text(),
        "args": {**OBJECT, "description": "All of them; a secret stands as its keyed hash."},
        "signatures": listed({"type": "string"}),
        "reasons": listed(ref("Reason")),
        "created_at": MOMENT,
        "expires_at": MOMENT,
        "approvers_required": {"type": "integer", "minimum": 1},
        "approved_by": listed({"type": "string"}),
        "approver_roles": listed({"type": "string"}),
    },
    {
        "run_id": text(),
        "has_run": {
            "type": "boolean",
            "description": "The command has run on a copy; `args` has what it `wrote`, and a yes makes that count.",
        },
        "unattended": UNATTENDED,
        "nonce": text("Which showing of the question is answered; for approvers."),
        "bound_hash": text("What would be done, as one hash; for approvers."),
    },
)
_GRANT = record(
    {
        "grant_id": text(),
        "project": text(),
        "agent_id": text(),
        "tool": text(),
        "signatures": listed({"type": "string"}),
        "given_by": text(),
        "call_id": text(),
        "created_at": MOMENT,
        "expires_at": MOMENT,
        "uses": WHOLE,
        "uses_left": WHOLE,
    }
)
_TOOL = record(
    {
        "name": text(),
        "description": text(),
        "input_schema": OBJECT,
        "effect": one_of(*(effect.value for effect in Effect)),
        "risk": one_of(*(risk.value for risk in Risk)),
        "cost": {"type": "number"},
        "confirmation_required": TRUTH,
        "required_roles": listed({"type": "string"}),
    }
)
_STATE = record(
    {"project": text(), "version": _COUNT, "document": {"description": "The state."}},
    {"snapshot_id": text(), "at": MOMENT, "call_id": text()},
)
_CHANGE = record(
    {"version": _COUNT, "snapshot_id": text(), "at": MOMENT},
    {"call_id": text(), "tool": text(), "agent_id": text(), "operations": _COUNT},
)

NOTE = text("Written down with the answer.", longest=NOTE_CHARS_MAX)
NONCE = text("The showing that was read; a question that was put anew since is not answered by it.", longest=200)
GRANT_TERMS = record(
    {},
    {
        "seconds": {"type": "integer", "minimum": 1, "maximum": GRANT_SECONDS_MAX, "default": 3_600},
        "uses": {"type": "integer", "minimum": 1, "maximum": GRANT_USES_MAX, "default": 5},
    },
    description="Let this signature with the same sensitive arguments pass again, for a time and a number of uses.",
)
IDS = listed(name_of("A call id, or your request id."), maxItems=ACKNOWLEDGED_MAX)

COMPONENTS: Mapping[str, Schema] = {
    "Json": _JSON,
    "Args": _ARGS,
    "Error": _ERROR,
    "Problem": record({"error": ref("Error")}, description="Why a request was not taken."),
    "Reason": _REASON,
    "FileChange": _FILE_CHANGE,
    "Outcome": _OUTCOME,
    "Call": _CALL,
    "SimulatedCall": _SIMULATED_CALL,
    "Plan": _plan(),
    "RunResult": record(
        {"status": one_of("completed", "failed"), "outcomes": listed(ref("Outcome"))},
        {"run_id": text("Absent where the plan is not one, and nothing was begun."), "error": ref("Error")},
        description="`completed` where every step was a success; `error` says why the run as a whole was refused.",
    ),
    "Run": _run(RUN_COLUMNS),
    "ListedRun": _run(LISTED_RUN_COLUMNS),
    "Entry": _LINE,
    "Question": _QUESTION,
    "Grant": _GRANT,
    "Tool": _TOOL,
    "State": _STATE,
    "StateChange": _CHANGE,
}


def standalone(schema: Schema) -> Schema:
    """A schema with every component that it may refer to, for a validator."""
    return {**schema, "components": {"schemas": dict(COMPONENTS)}}
