"""One operation of the API: declared once, from which requests are checked, routes made and documents written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from agent_gate.doors.api.reading import Reading
from agent_gate.doors.api.reads import refusal
from agent_gate.doors.api.schemas import Schema, record, standalone
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import Caller, body_of, json_of
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent
from agent_gate.model.errors import IdentityError, ToolError
from agent_gate.model.schema import validator
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

_INTEGER = re.compile(r"-?[0-9]{1,16}", re.ASCII)
_TRUTHS = {"true": True, "false": False}


class Who(Enum):
    """The kind of token that opens it."""

    AGENT = "agents"
    APPROVER = "approvers"
    EITHER = "agents and approvers"
    SIGNED = "the receiver of the webhook, by signature"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was taken: who asks, and for what, all of it checked."""

    context: ServerContext
    reading: Reading
    caller: Caller
    request: Request
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Json

    @property
    def agent(self) -> Agent:
        assert isinstance(self.caller, Agent)
        return self.caller

    @property
    def approver(self) -> Approver:
        assert isinstance(self.caller, Approver)
        return self.caller

    @property
    def only(self) -> str | None:
        """The agent whose things alone may be shown; None for an approver, who sees everything."""
        return self.caller.id if isinstance(self.caller, Agent) else None


Handler: TypeAlias = Callable[[Asked], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    who: Who
    summary: str
    handler: Handler
    gives: Mapping[int, Schema]
    """Answers to a request that was taken, by status."""
    description: str = ""
    path_fields: Mapping[str, Schema] = field(default_factory=dict)
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    body_required: bool = True
    refuses: Mapping[int, str] = field(default_factory=dict)
    """Reasons for which it may be refused besides those that every operation has, by status."""
    calls_a_tool: bool = False
    """True where an agent's request is a call of a tool that shows what is asked for; else it needs leave to read."""
    only_looks: bool = False
    """True where it shows something and changes nothing, though it is no GET."""

    @cached_property
    def _wrong_query(self) -> Callable[[Json], str | None]:
        return validator(record({}, self.query))

    @cached_property
    def _wrong_path(self) -> Callable[[Json], str | None]:
        return validator(record(self.path_fields))

    @cached_property
    def _wrong_body(self) -> Callable[[Json], str | None]:
        assert self.body is not None
        return validator(standalone(self.body), hide_values=True)

    def refuse_others(self, caller: Caller) -> None:
        """An agent's token never opens what is for people, nor theirs what is for agents."""
        if self.who is Who.EITHER or isinstance(caller, Agent) is (self.who is Who.AGENT):
            return
        raise IdentityError(f"this is for {self.who.value} only", code=6003, suggestion="use the token of one of them")

    async def answer(self, context: ServerContext, reading: Reading, caller: Caller, request: Request) -> Response:
        path = dict(request.path_params)
        if self.path_fields and self._wrong_path(path):
            raise NotThere(f"there is nothing at `{visible(request.url.path[:200])}`", code=2002)
        query = self._query_of(request)
        body = None if self.body is None else await self._body_of(request)
        asked = Asked(context, reading, caller, request, path, query, body)
        if self._is_read_by(caller) and (refused := await refusal(asked, self.path)):
            return refused
        return await self.handler(asked)

    def _is_read_by(self, caller: Caller) -> bool:
        """True where it shows what no call has shown."""
        if isinstance(caller, Agent):
            return self.method == "GET" and not self.calls_a_tool
        return self.method == "GET" or self.only_looks

    def _query_of(self, request: Request) -> dict[str, Any]:
        given = request.query_params.multi_items()
        values = {name: _typed(value, self.query.get(name, {})) for name, value in given}
        if len(values) != len(given):
            raise _bad("query", "a parameter is given twice")
        wrong = self._wrong_query(values)
        if wrong:
            raise _bad("query", wrong)
        defaults = {name: schema["default"] for name, schema in self.query.items() if "default" in schema}
        return defaults | values

    async def _body_of(self, request: Request) -> Json:
        if not self.body_required and "content-type" not in request.headers and not await body_of(request):
            return {}
        body = await json_of(request)
        wrong = self._wrong_body(body)
        if wrong:
            raise _bad("body", wrong)
        return body


class NotThere(ToolError):
    """Refuse what the path names: it does not exist, or is not the caller's to know."""


class Conflict(ToolError):
    """Refuse what is there does not allow now."""


def _typed(value: str, schema: Schema) -> Json:
    """A parameter as its schema has it; text that is no such value is left for the schema to refuse."""
    match schema.get("type"):
        case "integer":
            return int(value) if _INTEGER.fullmatch(value) else value
        case "boolean":
            return _TRUTHS.get(value, value)
        case _:
            return value


def _bad(what: str, wrong: str) -> ToolError:
    return ToolError(f"{what}: {visible(wrong)}", code=2002, suggestion="see `/api/openapi.json`")
