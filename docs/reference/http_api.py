"""Prints http.md: the operations of the HTTP API and the metrics, from what declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_gate.doors.api import BASE, OPERATIONS, VERSION
from agent_gate.doors.api.openapi import refusals
from agent_gate.doors.api.operation import Operation
from agent_gate.doors.api.schemas import COMPONENTS
from agent_gate.doors.observe.metrics import Meter
from agent_gate.system.clock import SystemClock

HEAD = """# HTTP

Generated from the declarations of the API by `docs/reference/http_api.py`; a test keeps it current. The same
declarations check every request and make the OpenAPI document at `/api/openapi.json`.

**Who.** Every request but `/healthz` carries `Authorization: Bearer <token>`, the token of an agent or of an approver
as `config.yaml` has it; `/api/v1/answers` is [signed](../guides/webhook-approvals.md) instead. An agent's token never
opens what is for approvers, nor an approver's what is for agents:
403, counted and recorded. An agent sees its own calls, runs, results and questions, and the state of its projects, each
by a call that is judged and recorded, and refused while the gate is paused; people look by role.
[What judges a request](doors.md) is a table of every route.

**From where.** `Host` must name the gate: `gateway.host`, on loopback also `localhost`, `127.0.0.1` and `[::1]`; a
gate that listens everywhere (`0.0.0.0`, `::`) takes any address, but no name except `localhost`. `Origin`, where a
browser sends one, must be the same authority. Anything else is 403, for WebSockets as well.

**Statuses.** A call that was taken answers 200 with its outcome, however it ended: denied by the policy, by a person,
or failed; and 202 with `pending_approval` while a person has yet to agree. A request that was not taken answers 4xx
or 5xx with `{"error": {"code", "name", "detail", "suggestion"}}`: 400 not what the operation takes, 401 no known
token, 403 not yours to do, 404 not there or not yours, 405 no such method there, 409 not any more, 413 and 415 not
such a body, 429 too many wrong tokens from this address (`Retry-After`), 503 the gate is closing or its ledger cannot
be used.

**Bodies** are strict JSON (no key twice, numbers within ±(2⁵³−1), no lone surrogates) of at most 1 MiB and 64 levels.
Lists are capped at 1,000, and end where an answer would be larger than 16 MiB.

**Waiting.** `POST /calls` waits for a person until the question's deadline, and so does `GET /state` where a rule
asks. A client that goes away ends the waiting and nothing else: the call goes on, its outcome is kept under `/results`,
and the same `request_id` joins it again. A plan goes on without its client; a server that ends breaks it off, and says
so in its record.
"""

PROBES = """## Health, figures, logs, traces

| path | for | |
|---|---|---|
| `GET /healthz` | everybody | 200 while the process answers |
| `GET /readyz` | approvers, agents with role `monitor` | 200, or 503; `checks` says which |
| `GET /metrics` | approvers, agents with role `monitor` | Prometheus text, or OpenMetrics where it is asked for |

A token of its own for a monitoring system is that of an agent with `roles: [monitor]`: that role is in no policy
unless you write it there, so it can look at the figures and do nothing. `readyz` looks at the ledger (a fresh reader
reads, the writer takes work), at the messenger and at every service's `health_check`; one look is good for 5 seconds.

`serve` logs to standard error, one JSON object a line; `--log-level` or `AGENT_GATE_LOG_LEVEL` is `warning` unless
you say `info` (every request: method, path, status, duration, address; never a query, header or body) or `debug`.
Every secret of `config.yaml`, every credential in an `Authorization` and whatever `secret_scrub` knows by its shape
shows as `[secret]`, also inside exceptions. An event loop that does not answer for a second is logged with the place
where it hangs.

Where an OpenTelemetry SDK is set up in the process (for instance by `opentelemetry-instrument agent-gate serve …`),
each call is a span `agent_gate.call` with one span below it for each stage, `agent_gate.admit` to
`agent_gate.settle`; a `traceparent` header makes it part of the caller's trace. Without an SDK nothing is made.

### Metrics
"""


def page() -> str:
    sections = [HEAD, _table(), *map(_section, OPERATIONS), PROBES + "\n" + "\n".join(_metrics()) + "\n"]
    return "\n".join(sections)


def _table() -> str:
    rows = [f"| {one.summary} | `{one.method} {BASE}{VERSION}{one.path}` | {one.who.value} |" for one in OPERATIONS]
    return "\n".join(["## Operations", "", "| | | for |", "|---|---|---|", *rows, ""])


def _section(operation: Operation) -> str:
    lines = [
        f"### {operation.summary}",
        "",
        f"`{operation.method} {BASE}{VERSION}{operation.path}` · for {operation.who.value}",
        "",
    ]
    if operation.description:
        lines += [operation.description, ""]
    fields = [*_fields("path", operation.path_fields, required=True), *_fields("query", operation.query)]
    if operation.body is not None:
        for variant in operation.body.get("oneOf", (operation.body,)):
            schema = _resolved(variant)
            required = schema.get("required", ())
            for name, field in schema["properties"].items():
                fields += _fields("body", {name: field}, required=name in required)
    if fields:
        lines += ["| in | field | | |", "|---|---|---|---|", *dict.fromkeys(fields), ""]
    given = ", ".join(f"{status} {_shape(schema)}" for status, schema in operation.gives.items())
    refused = ", ".join(map(str, refusals(operation)))
    lines += [f"Answers {given}; refuses with {refused}.", ""]
    return "\n".join(lines)


def _fields(place: str, fields: Mapping[str, Any], *, required: bool = False) -> Iterator[str]:
    for name, schema in fields.items():
        told = [str(_resolved(schema).get("description", schema.get("description", ""))).rstrip(".")]
        if required:
            told.append("required")
        if "default" in schema:
            told.append(f"default `{str(schema['default']).lower()}`")
        yield f"| {place} | `{name}` | {_shape(schema)} | {'; '.join(filter(None, told))} |"


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return COMPONENTS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _shape(schema: Mapping[str, Any]) -> str:
    """A schema in a word or two."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_shape, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_shape(schema['items'])}"
    if schema.get("type") == "object" and "properties" in schema:
        return "{" + ", ".join(f"{name}: {_shape(field)}" for name, field in schema["properties"].items()) + "}"
    if "maximum" in schema and schema["maximum"] < 2**53 - 1:
        return f"{schema['minimum']} to {schema['maximum']}"
    words = {"string": "text", "integer": "number", "boolean": "true or false"}
    return words.get(str(schema.get("type")), str(schema.get("type", "JSON")))


def _metrics() -> Iterator[str]:
    yield "| name | kind | |"
    yield "|---|---|---|"
    for family in Meter(SystemClock()).collect():
        labels = f"{{{', '.join(family._labelnames)}}}" if getattr(family, "_labelnames", ()) else ""  # type: ignore[attr-defined]
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield f"| `{name}{labels}` | {family.type} | {family.documentation} |"
    yield ""
    yield "Beside them the `process_*` figures of the Prometheus client. The label `tool` is the name of a tool that is"
    yield "offered here, at most 200 of them, or `other`; `stage` is the stage that refused, or empty."


if __name__ == "__main__":
    print(page(), end="")
