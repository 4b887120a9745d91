"""The API described: an OpenAPI 3.1 document made from the operations themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from agent_gate import __version__
from agent_gate.doors.api.operation import Operation, Who
from agent_gate.doors.api.schemas import COMPONENTS, Schema, ref, text
from agent_gate.doors.messengers.webhook.signature import ID, SIGNATURE, TIMESTAMP

ALWAYS: Mapping[int, str] = {
    400: "The request is not what this operation takes.",
    401: "No token, or one that is not known here.",
    403: "The token is one for other operations, or Host or Origin is not this gate's.",
    429: "Too many tokens that are nobody's came from this address.",
    503: "The gate is closing, or its ledger cannot be used.",
}
WITH_BODY: Mapping[int, str] = {413: "The body is too large.", 415: "The body is not `application/json`."}


def document(operations: Iterable[Operation], base: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(base + operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agent-gate",
            "version": __version__,
            "summary": "The one gate between AI agents and everything they can touch.",
            "description": (
                "A call that was taken answers 200 with its outcome, however it ended, and 202 while a person has yet"
                " to agree. A request that was not taken answers 4xx or 5xx with `{error: {code, name, …}}`."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(COMPONENTS),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of an agent or of an approver, as the configuration has it.",
                },
                "webhook": {
                    "type": "apiKey",
                    "in": "header",
                    "name": SIGNATURE,
                    "description": "`v1,` and in base64 HMAC-SHA256 over `{webhook-id}.{webhook-timestamp}.{body}`.",
                },
            },
        },
    }


def refusals(operation: Operation) -> dict[int, str]:
    """Every status of a request that is not taken, and why."""
    found = {**ALWAYS, **(WITH_BODY if operation.body is not None else {}), **operation.refuses}
    if operation.path_fields:
        found.setdefault(404, "There is no such thing, or it is not yours.")
    return dict(sorted(found.items()))


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": " ".join(filter(None, (f"For {operation.who.value}.", operation.description))),
        "responses": {
            **{str(status): _answer(HTTPStatus(status).phrase, schema) for status, schema in operation.gives.items()},
            **{str(status): _answer(why, ref("Problem")) for status, why in refusals(operation).items()},
        },
    }
    if operation.who is Who.SIGNED:
        described["security"] = [{"webhook": []}]
    parameters = [_parameter(name, "header", text(), required=True) for name in _signing(operation)]
    parameters += [_parameter(name, "path", schema, required=True) for name, schema in operation.path_fields.items()]
    parameters += [_parameter(name, "query", schema, required=False) for name, schema in operation.query.items()]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": operation.body}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    return described


def _signing(operation: Operation) -> tuple[str, ...]:
    return (ID, TIMESTAMP) if operation.who is Who.SIGNED else ()


def _answer(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, place: str, schema: Schema, *, required: bool) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": place, "required": required}
    if "description" in schema:
        parameter["description"] = schema["description"]
    return {**parameter, "schema": {key: value for key, value in schema.items() if key != "description"}}
