"""Common parts of the doors over HTTP: who asks, under which name, how much, and how a problem is told."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_gate.doors.codes import http_status_of_problem
from agent_gate.doors.identity import Identities
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import MESSAGE_BYTES_MAX, TOKEN_CHARS_MAX
from agent_gate.model.call import Agent
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.errors import GateError, IdentityError, Problem, ToolError
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

Caller: TypeAlias = Agent | Approver
CountRefusal: TypeAlias = Callable[[str, Problem], None]

STRANGER = "stranger"
"""Stands in the record for whoever could not say who they are."""

SECURITY_HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every response that does not set them itself."""

_READ = "agent_gate.body"
_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_EVERYWHERE = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 -- read in the configuration
_DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Authority(NamedTuple):
    """The name and port that a client says it talks to; no port where it is the scheme's own."""

    host: str
    port: int | None


class Doorkeeper:
    """ASGI middleware: every request and every handshake must name this gate, and come from no other page.

    A name of somebody else's that resolves to this machine (DNS rebinding) fails at Host, a page of another site or
    of another local port at Origin.
    """

    def __init__(self, app: ASGIApp, host: str, count_refusal: CountRefusal) -> None:
        self._app, self._count_refusal = app, count_refusal
        self._host = _plain(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        guarded = send if scope["type"] == "websocket" else _with_security_headers(send)
        problem = self._wrong(scope)
        if problem is None:
            await self._app(scope, receive, guarded)
            return
        self._count_refusal(STRANGER, problem)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": problem.name})
        else:
            await problem_response(problem)(scope, receive, guarded)

    def _wrong(self, scope: Scope) -> Problem | None:
        headers, scheme = Headers(scope=scope), scope["scheme"]
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        named = authority_of(hosts[0], scheme) if len(hosts) == 1 else None
        if named is None or not self._is_ours(named.host):
            said = visible(hosts[0][:200]) if hosts else ""
            return Problem(6003, f"host `{said}` is not this gate", f"use `{self._host}`, as gateway.host says")
        if origins and (len(origins) > 1 or not _same_site(origins[0], named, scheme)):
            said = visible(origins[0][:200])
            return Problem(6003, f"origin `{said}` may not use this gate", "open the console of the gate itself")
        return None

    def _is_ours(self, name: str) -> bool:
        if name == self._host:
            return True
        if self._host in _EVERYWHERE:
            # No name of somebody else's is an address, so an address cannot be one that was made to point here.
            return name in _LOOPBACK_NAMES or _address(name) is not None
        return name in _LOOPBACK_NAMES and is_loopback(self._host)


def is_loopback(host: str) -> bool:
    address = _address(_plain(host))
    return address.is_loopback if address else _plain(host) == "localhost"


def authority_of(text: str, scheme: str) -> Authority | None:
    """The authority that a Host header names, or None where it names none."""
    if not text.isascii() or not text.isprintable() or any(character in text for character in " @/\\?#%"):
        return None
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host:
        return None
    return Authority(_plain(host), None if port == _DEFAULT_PORTS[scheme] else port)


def _same_site(origin: str, named: Authority, scheme: str) -> bool:
    """Tell whether a page of this origin is one of ours; behind TLS only a page that came over TLS is."""
    origin_scheme, separator, rest = origin.partition("://")
    if not separator or origin_scheme not in ("http", "https"):
        return False
    if scheme in ("https", "wss") and origin_scheme != "https":
        return False
    return authority_of(rest, origin_scheme) == named


def _plain(host: str) -> str:
    return host.lower().strip("[]").removesuffix(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _with_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def address_of(connection: HTTPConnection) -> str:
    """Of the other end of the socket: what a header says of others is not believed."""
    return connection.client.host if connection.client else ""


def bearer_token(connection: HTTPConnection) -> str | None:
    """The token of an `Authorization: Bearer` header; None where there is not exactly one."""
    # Headers are read as Latin-1, so that no byte is lost; tokens are UTF-8.
    given = connection.headers.getlist("authorization")
    return token_in([value.encode("latin-1").decode("utf-8", "surrogateescape") for value in given])


def token_in(given: Sequence[str]) -> str | None:
    """The same, of the values of the header."""
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(" ")
    token = token.strip(" ")
    return token if scheme.lower() == "bearer" and 0 < len(token) <= TOKEN_CHARS_MAX else None


def caller_of(connection: HTTPConnection, identities: Identities) -> Caller:
    """Find whose token it is; IdentityError 6002 where it is nobody's."""
    return holder_of(bearer_token(connection), identities)


def holder_of(token: str | None, identities: Identities) -> Caller:
    caller = None
    if token is not None:
        caller = identities.agent(token) or identities.approver(token)
    if caller is None:
        what = "the request carries no token" if token is None else "the token is not known here"
        raise IdentityError(what, suggestion="send `Authorization: Bearer …` with a token of the configuration")
    return caller


async def body_of(request: Request, bytes_max: int = MESSAGE_BYTES_MAX) -> bytes:
    """The whole body, read no further than the bound; who asks again is given what was read."""
    if _READ in request.scope:
        return bytes(request.scope[_READ])
    too_large = ToolError(f"the body is larger than {bytes_max} bytes", code=1006, suggestion="send less")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > bytes_max:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise too_large
    request.scope[_READ] = bytes(body)
    return bytes(body)


async def json_of(request: Request, bytes_max: int = MESSAGE_BYTES_MAX) -> Json:
    """The body as strict JSON; ToolError 2002 where it is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NotJson(
            f"the body is `{visible(kind[:100])}`", code=2002, suggestion="send `Content-Type: application/json`"
        )
    try:
        return parse(await body_of(request, bytes_max))
    except CodecError as error:
        raise ToolError(f"the body is {error}", code=2002, suggestion="send one JSON object") from None


class NotJson(ToolError):
    """A body of another kind than the one that is taken here."""


def json_response(value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, dict(headers or {}), media_type="application/json")


def problem_response(problem: Problem, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """`{"error": {…}}`: why a request was not taken."""
    status = status or http_status_of_problem(problem)
    told = {"www-authenticate": "Bearer"} if status == 401 else {}
    return json_response({"error": problem.to_json()}, status, {**told, **(headers or {})})


async def _gate_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, GateError)
    return problem_response(error.problem, 415 if isinstance(error, NotJson) else None)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer what the router itself refuses: no such place, no such method there."""
    assert isinstance(error, HTTPException)
    path = visible(request.url.path[:200])
    what = f"`{path}` does not take {request.method}" if error.status_code == 405 else f"there is nothing at `{path}`"
    problem = Problem(2002, what, "see `/api/openapi.json`")
    return problem_response(problem, error.status_code, error.headers)


async def _bug(_: Request, error: Exception) -> Response:
    return problem_response(Problem(2003, f"the gate itself failed: {type(error).__name__}"), 500)


EXCEPTION_HANDLERS: Mapping[Any, Any] = {GateError: _gate_error, HTTPException: _http_error, Exception: _bug}
"""For `Starlette(exception_handlers=…)`: whatever a door raises is answered as one coded line of JSON."""


def acting_for(caller: Caller) -> Agent:
    """Tell who makes a call that comes in by this door; a person's are made in their name, and others agree to them."""
    if isinstance(caller, Agent):
        return caller
    return Agent(f"approver:{caller.id}", caller.roles, ("*",), owner=caller.id)
