"""What every door over HTTP shares: names, origins, tokens, bodies, and how problems are told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from agent_gate.doors.codes import http_status_of_problem
from agent_gate.doors.http import (
    SECURITY_HEADERS,
    Doorkeeper,
    NotJson,
    bearer_token,
    body_of,
    caller_of,
    is_loopback,
    json_of,
    problem_response,
)
from agent_gate.doors.identity import Identities
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent
from agent_gate.model.errors import NAMES, GateError, Problem, ToolError
from tests.servers import ANNA_TOKEN, BOT_TOKEN, a_config

LOOPBACK = "127.0.0.1"


async def inside(_: Scope, __: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/html"), (b"content-security-policy", b"default-src 'self'")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"inside"})


async def come(
    headers: dict[str, str] | list[tuple[str, str]], *, host: str = LOOPBACK, kind: str = "http", scheme: str = "http"
) -> tuple[list[Message], list[tuple[str, Problem]]]:
    """What somebody with these headers is told, and what was counted."""
    told: list[Message] = []
    counted: list[tuple[str, Problem]] = []

    async def send(message: Message) -> None:
        told.append(message)

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    given = headers.items() if isinstance(headers, dict) else headers
    scope: Scope = {
        "type": kind,
        "method": "GET",
        "path": "/",
        "scheme": scheme,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given],
    }
    await Doorkeeper(inside, host, lambda who, problem: counted.append((who, problem)))(scope, receive, send)
    return told, counted


async def lets_in(headers: dict[str, str] | list[tuple[str, str]], **options: Any) -> bool:
    told, counted = await come(headers, **options)
    entered = told[-1].get("body") == b"inside"
    assert entered is not bool(counted)
    return entered


@pytest.mark.parametrize(
    ("bound_to", "named", "enters"),
    [
        (LOOPBACK, "127.0.0.1:8443", True),
        (LOOPBACK, "localhost:8443", True),
        (LOOPBACK, "LOCALHOST", True),
        (LOOPBACK, "localhost.:8443", True),
        (LOOPBACK, "[::1]:8443", True),
        (LOOPBACK, "evil.example:8443", False),
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "127.0.0.1.nip.io", False),
        (LOOPBACK, "192.0.2.7", False),
        (LOOPBACK, "", False),
        (LOOPBACK, "localhost:port", False),
        (LOOPBACK, "localhost@evil.example", False),
        (LOOPBACK, "evil.example#localhost", False),
        (LOOPBACK, "localhost evil.example", False),
        (LOOPBACK, "localhost%00", False),
        ("localhost", "127.0.0.1", True),
        ("::1", "[::1]:8443", True),
        ("gate.example", "gate.example:8443", True),
        ("gate.example", "Gate.Example.", True),
        ("gate.example", "localhost", False),
        ("gate.example", "127.0.0.1", False),
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("0.0.0.0", "192.0.2.7:8443", True),
        ("0.0.0.0", "[2001:db8::1]", True),
        ("::", "localhost", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_only_a_request_that_names_this_gate_enters(bound_to: str, named: str, enters: bool, kind: str) -> None:
    assert await lets_in({"host": named}, host=bound_to, kind=kind) is enters


@pytest.mark.parametrize(
    ("scheme", "named", "origin", "enters"),
    [
        ("http", "localhost:8443", "http://localhost:8443", True),
        ("ws", "localhost:8443", "http://localhost:8443", True),
        ("https", "localhost:8443", "https://localhost:8443", True),
        ("https", "localhost", "https://localhost", True),
        ("https", "localhost:443", "https://localhost", True),
        ("http", "localhost", "https://localhost", True),  # behind something that ends TLS
        ("https", "localhost:8443", "http://localhost:8443", False),
        ("wss", "localhost:8443", "http://localhost:8443", False),
        ("http", "localhost:8443", "http://localhost:3000", False),
        ("http", "localhost:8443", "http://localhost", False),
        ("http", "localhost:8443", "http://127.0.0.1:8443", False),
        ("http", "localhost:8443", "http://evil.example", False),
        ("http", "localhost:8443", "http://localhost:8443.evil.example", False),
        ("http", "localhost:8443", "http://localhost:8443@evil.example", False),
        ("http", "localhost:8443", "null", False),
        ("http", "localhost:8443", "", False),
        ("http", "localhost:8443", "file://", False),
        ("http", "localhost:8443", "chrome-extension://localhost:8443", False),
    ],
)
async def test_only_pages_of_the_gate_itself_may_use_it(scheme: str, named: str, origin: str, enters: bool) -> None:
    kind = "websocket" if scheme.startswith("ws") else "http"
    assert await lets_in({"host": named, "origin": origin}, scheme=scheme, kind=kind) is enters


async def test_a_header_that_is_given_twice_names_nothing() -> None:
    assert not await lets_in([("host", "localhost"), ("host", "localhost")])
    assert not await lets_in([("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")])
    assert not await lets_in([])


async def test_who_is_turned_away_is_told_why_and_counted() -> None:
    told, counted = await come({"host": "evil.example\x9b"})
    assert told[0]["status"] == 403
    error = json.loads(told[1]["body"])["error"]
    assert (error["code"], error["name"]) == (6003, "not_entitled")
    assert "`evil.example⟨U+009B⟩`" in error["detail"]
    assert [(who, problem.code) for who, problem in counted] == [("stranger", 6003)]


async def test_a_handshake_is_turned_away_before_it_is_accepted() -> None:
    told, _ = await come({"host": "evil.example"}, kind="websocket")
    assert told == [{"type": "websocket.close", "code": 1008, "reason": "not_entitled"}]


async def test_every_response_has_the_security_headers_that_it_does_not_set_itself() -> None:
    for named in ("localhost", "evil.example"):
        told, _ = await come({"host": named})
        headers = {name.decode(): value.decode() for name, value in told[0]["headers"]}
        expected = dict(SECURITY_HEADERS)
        if named == "localhost":
            expected["content-security-policy"] = "default-src 'self'"
        assert {name: headers[name] for name in expected} == expected


def test_loopback_is_known_by_name_and_by_address() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]", "LOCALHOST.")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.7", "gate.example", "localhost.example")))


def request_with(headers: Iterable[tuple[str, str]], chunks: Iterable[bytes] = ()) -> Request:
    parts = [*chunks]

    async def receive() -> Message:
        body = parts.pop(0) if parts else b""
        return {"type": "http.request", "body": body, "more_body": bool(parts)}

    encoded = [(name.encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": encoded}, receive)


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("Bearer  abc ", "abc"),
        ("Bearer tökën", "tökën"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("abc", None),
        ("", None),
        ("Bearer " + "a" * 5_000, None),
    ],
)
def test_a_token_is_read_from_the_authorization_header(given: str, token: str | None) -> None:
    assert bearer_token(request_with([("authorization", given)])) == token


def test_two_authorization_headers_are_none() -> None:
    assert bearer_token(request_with([("authorization", "Bearer a"), ("authorization", "Bearer a")])) is None


def test_a_token_tells_an_agent_from_an_approver() -> None:
    identities = Identities(a_config())
    assert isinstance(caller_of(request_with([("authorization", f"Bearer {BOT_TOKEN}")]), identities), Agent)
    assert isinstance(caller_of(request_with([("authorization", f"Bearer {ANNA_TOKEN}")]), identities), Approver)


@pytest.mark.parametrize("given", [[], [("authorization", "Bearer of-nobody")], [("authorization", "Bearer tökën")]])
def test_nobodys_token_is_refused_and_not_repeated(given: list[tuple[str, str]]) -> None:
    with pytest.raises(GateError) as raised:
        caller_of(request_with(given), Identities(a_config()))
    assert raised.value.code == 6002
    assert "of-nobody" not in str(raised.value)


async def test_a_body_is_read_no_further_than_its_bound() -> None:
    read: list[bytes] = []

    def chunks() -> Iterable[bytes]:
        for _ in range(100):
            read.append(b"x" * 10)
            yield read[-1]

    source = chunks()

    async def receive() -> Message:
        return {"type": "http.request", "body": next(iter(source)), "more_body": True}

    with pytest.raises(ToolError) as raised:
        await body_of(Request({"type": "http", "headers": []}, receive), bytes_max=25)
    assert raised.value.code == 1006
    assert len(read) == 3


async def test_a_body_that_announces_too_much_is_not_read_at_all() -> None:
    request = request_with([("content-length", "9" * 30)], [b"x"])
    with pytest.raises(ToolError) as raised:
        await body_of(request, bytes_max=25)
    assert raised.value.code == 1006


JSON = ("content-type", "application/json; charset=utf-8")


async def test_a_body_is_json() -> None:
    assert await json_of(request_with([JSON], [b'{"a"', b": 1}"])) == {"a": 1}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b'{"a": 1, "a": 2}', b"9007199254740993", b"\xff", b'"\\ud800"', b"NaN"]
)
async def test_what_is_not_strict_json_is_refused(body: bytes) -> None:
    with pytest.raises(ToolError) as raised:
        await json_of(request_with([JSON], [body]))
    assert raised.value.code == 2002
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [[], [("content-type", "text/plain")], [("content-type", "application/jsonp")]])
async def test_what_does_not_say_that_it_is_json_is_refused(kind: list[tuple[str, str]]) -> None:
    """A form of another site can send anything but this type."""
    with pytest.raises(NotJson):
        await json_of(request_with(kind, [b"{}"]))


def test_every_code_has_an_http_status() -> None:
    statuses = {code: http_status_of_problem(Problem(code, "")) for code in NAMES}
    assert all(400 <= status < 600 for status in statuses.values())
    assert (statuses[6002], statuses[6003], statuses[4001], statuses[1016], statuses[5002]) == (401, 403, 404, 409, 503)


def test_who_is_not_known_is_told_how_to_say_who_they_are() -> None:
    response = problem_response(Problem(6002, "no token"))
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert json.loads(bytes(response.body)) == {
        "error": {"code": 6002, "name": "not_authenticated", "detail": "no token"}
    }
