"""The HTTP API: calls for agents, answers for approvers, and a description of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router

from agent_gate.chain.configured import API
from agent_gate.doors.api import answers, calls, past, people
from agent_gate.doors.api.openapi import document
from agent_gate.doors.api.operation import Asked, Operation, Who
from agent_gate.doors.api.place import Place
from agent_gate.doors.api.reading import Reading
from agent_gate.doors.api.schemas import OBJECT
from agent_gate.doors.callers import Callers
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import json_response
from agent_gate.doors.messengers.webhook.callers import SignedCallers, webhook_of

BASE = "/api"
VERSION = "/v1"
OPERATIONS: tuple[Operation, ...] = (*calls.OPERATIONS, *people.OPERATIONS, *answers.OPERATIONS, *past.OPERATIONS)


def describe() -> dict[str, Any]:
    return document(OPERATIONS, BASE + VERSION)


def routes(context: ServerContext) -> list[BaseRoute]:
    """One mount: whatever is below it is answered here, in JSON, also where there is nothing."""
    described, reading = describe(), Reading(context)
    if API in context.config.chains and context.api_chain is None:
        raise AssertionError("a chain that is configured must be there before the door opens")
    callers = Callers(context.identities, context.throttle, context.api_chain)
    signed = SignedCallers(context, webhook_of(context.config), callers)

    async def show_document(_: Asked) -> Response:
        return json_response(described)

    own = Operation("showDocument", "GET", "/openapi.json", Who.EITHER, "This document", show_document, {200: OBJECT})
    places: dict[str, dict[str, Operation]] = {own.path: {own.method: own}}
    for operation in OPERATIONS:
        places.setdefault(VERSION + _pattern(operation.path), {})[operation.method] = operation
    # The longer path first: an id may have slashes, and would take the rest of it.
    below = [
        Route(path, Place(context, reading, signed if _is_signed(places[path]) else callers, places[path]))
        for path in sorted(places, key=len, reverse=True)
    ]
    return [Mount(BASE, Router(below, redirect_slashes=False, default=Place(context, reading, callers, {})))]


def _is_signed(operations: Mapping[str, Operation]) -> bool:
    return all(operation.who is Who.SIGNED for operation in operations.values())


def _pattern(path: str) -> str:
    """An agent's own request id may be any text."""
    return path.replace("{id}", "{id:path}")
