"""One path of the API: asks who comes, picks the operation, and tells every problem as one coded line."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_gate.doors.api.operation import Conflict, NotThere, Operation
from agent_gate.doors.api.reading import Reading
from agent_gate.doors.callers import Answered, Callers
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import STRANGER, NotJson, problem_response
from agent_gate.doors.messengers.webhook.callers import SignedCallers, TakenBefore
from agent_gate.model.errors import GateError, IdentityError, Problem
from agent_gate.model.visible import visible

_log = logging.getLogger(__name__)

_STATUSES: Mapping[type[GateError], int] = {NotJson: 415, NotThere: 404, Conflict: 409, TakenBefore: 409}
CLOSING = Problem(5001, "the gate is closing", "repeat the request with the same request_id when it is back")


class Place:
    """An ASGI application for all methods of one path."""

    def __init__(
        self,
        context: ServerContext,
        reading: Reading,
        callers: Callers | SignedCallers,
        operations: Mapping[str, Operation],
    ) -> None:
        self._context, self._reading, self._callers, self._operations = context, reading, callers, dict(operations)
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._response(request)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        who = STRANGER
        try:
            caller = await self._callers.of(request)
            if isinstance(caller, Answered):
                if caller.problem is not None:
                    self._context.gate.count_refusal(STRANGER, caller.problem)
                return caller.response
            who = caller.id
            operation = self._operations.get(request.method)
            if operation is None:
                return self._no_such_method(request)
            operation.refuse_others(caller)
            if self._context.closing.is_set():
                return problem_response(CLOSING)
            return await operation.answer(self._context, self._reading, caller, request)
        except IdentityError as error:
            self._context.gate.count_refusal(who, error.problem)
            return problem_response(error.problem, _STATUSES.get(type(error)))
        except GateError as error:
            return problem_response(error.problem, _STATUSES.get(type(error)))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            _log.exception("the HTTP API failed on %s", request.url.path)
            return problem_response(Problem(2003, f"the gate itself failed: {type(error).__name__}"), 500)

    def _no_such_method(self, request: Request) -> Response:
        path = visible(request.url.path[:200])
        if not self._operations:
            return problem_response(Problem(2002, f"there is nothing at `{path}`", "see `/api/openapi.json`"), 404)
        allowed = ", ".join(sorted(self._operations))
        problem = Problem(2002, f"`{path}` does not take {visible(request.method[:20])}", f"it takes {allowed}")
        return problem_response(problem, 405, {"allow": allowed})
