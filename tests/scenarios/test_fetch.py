"""`http.get` against real servers on loopback: honest ones, slow ones, endless ones and liars."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_gate import open_gate
from agent_gate.model.outcome import Outcome, Status
from tests.gates import code_of, soon
from tests.scenarios.certificates import Authority
from tests.web import Web, a_gate_to

pytestmark = pytest.mark.anyio

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@dataclass
class Server:
    """What was said to it, and where it is."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """The names that TLS clients asked for."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has gone."""


@asynccontextmanager
async def a_server(
    talk: Talk | bytes = HELLO, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    server = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            server.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            if isinstance(talk, bytes):
                writer.write(talk)
            else:
                await talk(reader, writer)
            await writer.drain()
        writer.close()
        server.left.set()

    if tls is not None:
        tls.sni_callback = lambda _, name, __: server.names.append(name)
    listening = await asyncio.start_server(serve, host, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


async def get(url: str, at: Path, authority: Authority, /, addresses: Any = ("127.0.0.1",), **args: Any) -> Outcome:
    section = {
        "allow_domains": ["*.loop.test", "loop.test", "127.0.0.1", "::1"],
        "allow_schemes": ["http", "https"],
        "allow_ports": sorted({int(part) for part in url.replace("/", ":").split(":") if part.isdigit()}),
        "deny_private_ips": False,
        **args.pop("section", {}),
    }
    web = Web()
    web.names = {name: [list(addresses)] for name in ("loop.test", "a.loop.test", "b.loop.test")}
    async with a_gate_to(web, {"tools": {"http.get": section}}, at / "gate.db", tls=authority.client()) as gate:
        return await gate.call("http.get", {"url": url, **args})


async def test_the_judged_address_is_asked_by_the_name_of_the_host(tmp_path: Path, authority: Authority) -> None:
    async with a_server(tls=authority.server("loop.test")) as server:
        outcome = await get(f"https://loop.test:{server.port}/x?y", tmp_path, authority)
    assert (outcome.error, outcome.data["body"]) == (None, "hello")
    assert server.names == ["loop.test"]
    assert server.heads[0].splitlines()[:2] == ["GET /x?y HTTP/1.1", f"host: loop.test:{server.port}"]


@pytest.mark.parametrize("names", [("other.test",), ("*.loop.test",), ("127.0.0.1",)])
async def test_a_certificate_for_another_name_ends_it_before_a_word_is_said(
    tmp_path: Path, authority: Authority, names: tuple[str, ...]
) -> None:
    async with a_server(tls=authority.server(*names)) as server:
        outcome = await get(f"https://loop.test:{server.port}/", tmp_path, authority)
    assert (outcome.status, code_of(outcome), server.heads) == (Status.ERROR, 2006, [])


async def test_a_certificate_of_an_unknown_authority_ends_it_too(tmp_path: Path, authority: Authority) -> None:
    async with a_server(tls=Authority(tmp_path, "nobody").server("loop.test")) as server:
        outcome = await get(f"https://loop.test:{server.port}/", tmp_path, authority)
    assert (code_of(outcome), server.heads) == (2006, [])


async def test_an_address_is_verified_as_an_address(tmp_path: Path, authority: Authority) -> None:
    async with a_server(tls=authority.server("127.0.0.1")) as server:
        outcome = await get(f"https://127.0.0.1:{server.port}/", tmp_path, authority)
    assert (outcome.ok, server.names) == (True, [None])


async def test_an_ipv6_address_is_dialled_as_written(tmp_path: Path, authority: Authority) -> None:
    async with a_server(host="::1") as server:
        outcome = await get(f"http://[::1]:{server.port}/", tmp_path, authority, section={"allow_ports": [server.port]})
    assert outcome.ok
    assert server.heads[0].splitlines()[1] == f"host: [::1]:{server.port}"


async def test_where_one_judged_address_does_not_answer_the_next_one_does(tmp_path: Path, authority: Authority) -> None:
    async with a_server(host="127.0.0.3") as server:
        outcome = await get(
            f"http://loop.test:{server.port}/", tmp_path, authority, addresses=("127.0.0.3", "127.0.0.2")
        )
    assert outcome.ok


async def test_a_redirect_goes_from_server_to_server(tmp_path: Path, authority: Authority) -> None:
    async with a_server(tls=authority.server("b.loop.test")) as last:
        moved = f"HTTP/1.1 302 Found\r\nLocation: https://b.loop.test:{last.port}/end\r\nContent-Length: 9\r\n\r\n"
        async with a_server(moved.encode()) as first:
            outcome = await get(
                f"http://a.loop.test:{first.port}/start",
                tmp_path,
                authority,
                headers={"Authorization": "Bearer x", "Accept": "text/html"},
                section={"allow_ports": [first.port, last.port]},
            )
    assert (outcome.data["body"], outcome.data["url"]) == ("hello", f"https://b.loop.test:{last.port}/end")
    assert "authorization: Bearer x" in first.heads[0]
    assert "authorization" not in last.heads[0]
    assert "accept: text/html" in last.heads[0]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment_is_not_used(
    tmp_path: Path, authority: Authority, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_server() as proxy, a_server() as server:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        outcome = await get(f"http://loop.test:{server.port}/", tmp_path, authority)
    assert (outcome.ok, len(server.heads), proxy.heads) == (True, 1, [])


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def say_to_go_on(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("talk", [drip, drip_head, say_to_go_on, say_nothing])
@pytest.mark.parametrize("limit", ["argument", "policy"])
async def test_a_slow_server_has_one_deadline_for_everything(
    tmp_path: Path, authority: Authority, talk: Talk, limit: str
) -> None:
    limits = {"timeout": 0.3} if limit == "argument" else {"timeout": 1000, "section": {"timeout_seconds": 0.3}}
    async with a_server(talk) as server:
        outcome = await soon(get(f"http://loop.test:{server.port}/", tmp_path, authority, **limits))
        assert (code_of(outcome), outcome.data) == (2004, None)
        await asyncio.wait_for(server.left.wait(), 10)


async def test_a_server_that_never_shakes_hands_has_the_same_deadline(tmp_path: Path, authority: Authority) -> None:
    async with a_server(say_nothing) as server:
        outcome = await get(f"https://loop.test:{server.port}/", tmp_path, authority, timeout=0.3)
    assert code_of(outcome) == 2004


async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        await writer.drain()


async def test_an_endless_answer_is_cut_at_the_limit_and_nothing_of_it_told(
    tmp_path: Path, authority: Authority
) -> None:
    async with a_server(flood) as server:
        section = {"max_response_bytes": 100_000}
        outcome = await get(f"http://loop.test:{server.port}/", tmp_path, authority, section=section)
        assert (code_of(outcome), outcome.data) == (2005, None)
        await asyncio.wait_for(server.left.wait(), 10)


async def test_an_answer_that_announces_too_much_is_not_even_read(tmp_path: Path, authority: Authority) -> None:
    async with a_server(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") as server:
        outcome = await get(f"http://loop.test:{server.port}/", tmp_path, authority)
    assert code_of(outcome) == 2005


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"\x00" * 100,
    ],
    ids=["nothing", "no HTTP", "large head", "cut short", "two lengths", "no chunk", "NUL", "zeros"],
)
async def test_an_answer_that_is_none_is_an_error(tmp_path: Path, authority: Authority, answer: bytes) -> None:
    async with a_server(answer) as server:
        outcome = await get(f"http://loop.test:{server.port}/", tmp_path, authority)
    assert (outcome.status, code_of(outcome), outcome.data) == (Status.ERROR, 2003, None)


async def test_nobody_there_is_an_error_that_costs_nothing(tmp_path: Path, authority: Authority) -> None:
    async with a_server() as server:
        port = server.port
    outcome = await get(f"http://loop.test:{port}/", tmp_path, authority)
    assert (code_of(outcome), outcome.cost) == (2006, None)


async def test_no_descriptor_is_left_behind(tmp_path: Path, authority: Authority) -> None:
    async def count(url: str) -> int:
        for number in range(5):
            (tmp_path / str(number)).mkdir(exist_ok=True)
            await get(url, tmp_path / str(number), authority, timeout=0.05)
        return len(os.listdir("/proc/self/fd"))

    async with a_server(say_nothing) as slow, a_server(tls=authority.server("other.test")) as wrong:
        for url in (
            f"http://loop.test:{slow.port}/",
            f"https://loop.test:{slow.port}/",
            f"https://loop.test:{wrong.port}/",
        ):
            before = await count(url)
            assert await count(url) <= before


async def test_a_gate_as_anybody_opens_it_fetches(tmp_path: Path) -> None:
    async with a_server() as server:
        section = {
            "allow_domains": ["localhost"],
            "allow_schemes": ["http"],
            "allow_ports": [server.port],
            "deny_private_ips": False,
        }
        policy: Mapping[str, Any] = {"tools": {"http.get": section}}
        async with open_gate(policy, tmp_path / "gate.db") as gate:
            outcome = await gate.call("http.get", url=f"http://localhost:{server.port}/")
    assert outcome.data["body"] == "hello"
