"""The home's REST interface, and what something in front of it may answer instead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.credentials import Token
from agent_gate.services.home_assistant.faults import AuthRefused, Lost, Refused
from agent_gate.services.home_assistant.rest import Rest
from tests.gates import soon
from tests.scripted_home import TOKEN


class Canned:
    """Says the same to everyone, whatever they ask."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.heard, self.url = answer, "", ""

    @asynccontextmanager
    async def serving(self, bounds: HomeBounds = DEFAULT_BOUNDS) -> AsyncIterator[Rest]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        rest = Rest(Address.of(HomeAssistantConfig(self.url)), Token(TOKEN), bounds)
        try:
            yield rest
        finally:
            await rest.close()
            server.close()
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ":0")
            self.heard = head + (await reader.readexactly(int(length.partition(":")[2]))).decode()
            writer.write(self.answer)
            await writer.drain()
        writer.close()


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers))
    return f"{head}\r\n\r\n".encode() + body


async def called(rest: Rest, *, wants_response: bool = False) -> Any:
    body = {"entity_id": "light.a", "brightness_pct": 5}
    return await soon(rest.call_service("light", "turn_on", body, wants_response=wants_response, timeout_s=5))


async def test_a_call_is_posted_flat_with_the_token_in_its_header_and_uncompressed() -> None:
    server = Canned(answer("200 OK", b"[]"))
    async with server.serving() as rest:
        assert await called(rest) == ([], None)
    head, _, body = server.heard.partition("\r\n\r\n")
    assert head.startswith("POST /api/services/light/turn_on HTTP/1.1")
    assert {f"authorization: bearer {TOKEN.lower()}", "accept-encoding: identity"} < set(head.lower().split("\r\n"))
    assert json.loads(body) == {"entity_id": "light.a", "brightness_pct": 5}


async def test_a_response_is_asked_for_by_its_parameter_and_read_in_its_own_shape() -> None:
    told = {"changed_states": [{"entity_id": "light.a"}], "service_response": {"x": 1}}
    server = Canned(answer("200 OK", json.dumps(told).encode()))
    async with server.serving() as rest:
        assert await called(rest, wants_response=True) == ([{"entity_id": "light.a"}], {"x": 1})
    assert server.heard.startswith("POST /api/services/light/turn_on?return_response")


async def test_a_moment_in_the_query_keeps_its_plus() -> None:
    server = Canned(answer("200 OK", b"[]"))
    async with server.serving() as rest:
        await rest.history(["light.a", "light.b"], "2026-03-04T12:00:00+01:00", "2026-03-05T12:00:00+01:00")
    line = server.heard.partition("\r\n")[0]
    assert "end_time=2026-03-05T12%3A00%3A00%2B01%3A00" in line
    assert "/api/history/period/2026-03-04T12%3A00%3A00%2B01%3A00?" in line
    assert "filter_entity_id=light.a%2Clight.b" in line
    assert {"minimal_response", "significant_changes_only"} <= {part.partition("=")[0] for part in line.split("&")}


@pytest.mark.parametrize(
    ("status", "body", "reason", "text"),
    [
        ("400 Bad Request", b"400: Bad Request", "invalid_format", "does not say why; check names and values"),
        ("400 Bad Request", b'{"message": "Invalid end_time"}', "invalid_format", "Invalid end_time"),
        ("401 Unauthorized", b"401: Unauthorized", "unauthorized", "an administrator's token may"),
        ("403 Forbidden", b"", "forbidden", "ip_bans.yaml"),
        ("404 Not Found", b"", "not_found", "does not know this"),
        ("500 Internal Server Error", b"Server got itself in trouble", "home_assistant_error", "may not support it"),
    ],
)
async def test_each_no_is_told_with_what_can_be_known_of_its_reason(
    status: str, body: bytes, reason: str, text: str
) -> None:
    async with Canned(answer(status, body)).serving() as rest:
        with pytest.raises(Refused, match=text) as raised:
            await called(rest)
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    "said",
    [
        answer("502 Bad Gateway", b"<html>"),
        answer("503 Service Unavailable"),
        answer("504 Gateway Timeout"),
        answer("200 OK", b"<html>a page of the proxy's</html>"),
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[",
        b"nonsense\r\n\r\n",
    ],
)
async def test_where_something_in_between_answers_or_nobody_does_the_call_may_have_been_heard(said: bytes) -> None:
    async with Canned(said).serving() as rest:
        with pytest.raises(Lost) as raised:
            await called(rest)
    assert raised.value.sent
    assert TOKEN not in str(raised.value)


async def test_redirects_are_not_followed_so_that_nobody_else_gets_the_token() -> None:
    thief = Canned(answer("200 OK", b"[]"))
    async with thief.serving():
        redirect = Canned(answer("307 Temporary Redirect", b"", f"Location: {thief.url}/api/states"))
        async with redirect.serving() as rest:
            with pytest.raises(Lost, match="status 307"):
                await rest.states()
    assert thief.heard == ""


async def test_an_answer_without_end_is_broken_off() -> None:
    canned = Canned(answer("200 OK", b"[" + b" " * 5_000 + b"]"))
    async with canned.serving(HomeBounds(message_bytes_max=1_000)) as rest:
        with pytest.raises(ToolError, match="ask for less") as raised:
            await rest.states()
    assert raised.value.code == 2005


async def test_only_what_everyone_may_read_shows_that_a_token_is_dead() -> None:
    async with Canned(answer("401 Unauthorized", b"401: Unauthorized")).serving() as rest:
        with pytest.raises(AuthRefused, match="refuses the token"):
            await rest.config()
        with pytest.raises(Refused):
            await rest.render("{{ 1 }}")


async def test_lists_of_another_shape_are_empty() -> None:
    async with Canned(answer("200 OK", b'{"a": 1}')).serving() as rest:
        assert (await rest.states(), await rest.services()) == ([], [])
    async with Canned(answer("200 OK", b"[1]")).serving() as rest:
        assert await rest.config() == {}
