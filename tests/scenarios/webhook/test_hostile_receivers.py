"""Receivers that are wrong or hostile: no call waits for them, nobody is told that they are well, nothing gets out."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_gate.config import load_config
from agent_gate.doors.observe.logs import configure_logs, secrets_of
from agent_gate.model.errors import ConfigError
from tests.gates import sender, until
from tests.webhooks import SECRET, Hooked, Receiver, a_hook

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[Receiver]:
    """A receiver that says, byte by byte, what it likes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Receiver(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()


async def _for_ever(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)


async def endless_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await _for_ever(writer, b"x-more: " + b"x" * 1_000 + b"\r\n")


async def endless_hints(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _for_ever(writer, b"HTTP/1.1 103 Early Hints\r\n\r\n")


async def endless_line(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _for_ever(writer, b"H" * 1_000)


async def another_protocol(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-\x1b[31mOpenSSH\xe2\x80\xae\r\n")
    await writer.drain()


@pytest.mark.parametrize("talk", [endless_head, endless_hints, endless_line, another_protocol])
async def test_one_that_never_comes_to_an_end_is_given_up_and_told_as_trouble(tmp_path: Path, talk: Talk) -> None:
    async with listening(talk) as receiver, a_hook(tmp_path, receiver, sender([]), limits={"timeout_s": 0.3}) as hooked:
        await asyncio.wait_for(hooked.call({"text": "hi"}), 5)
        await until(lambda: hooked.messenger.trouble)
        assert hooked.messenger.trouble.startswith("the webhook at 127.0.0.1 ")
        assert hooked.messenger.trouble.isprintable()
        assert not hooked.messenger.healthy()


async def test_an_endless_body_is_not_read(tmp_path: Path) -> None:
    sent = 0

    async def endless_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
            await writer.drain()
            sent += 0xFFFF

    async with listening(endless_body) as receiver, a_hook(tmp_path, receiver, sender([])) as hooked:
        await hooked.call({"text": "hi"})
        await until(lambda: hooked.messenger.board.known() and hooked.messenger.healthy())
        await asyncio.sleep(0.3)
        before = sent
        await asyncio.sleep(0.2)
        assert sent == before < 32 * 1_048_576


async def test_one_that_says_later_again_and_again_is_told_as_trouble(hooked: Hooked) -> None:
    """Nobody is asked meanwhile."""
    hooked.receiver.statuses, hooked.receiver.headers = [503] * 10_000, {"retry-after": "60"}
    await hooked.call({"text": "hi"})
    await until(lambda: hooked.messenger.trouble)
    assert "answers 503" in hooked.messenger.trouble
    assert not hooked.messenger.healthy()
    hooked.receiver.statuses = []
    await until(hooked.messenger.healthy)


@pytest.mark.parametrize("url", ["https://a..b/", "https://x.test:99999/", f"https://{'a' * 64}.test/", "https://-/"])
async def test_a_url_that_leads_nowhere_is_told_as_trouble_if_not_before(tmp_path: Path, url: str) -> None:
    async with a_hook(tmp_path, Receiver(url=url), sender([])) as hooked:
        await hooked.call({"text": "hi"})
        await until(lambda: hooked.messenger.trouble)
        assert not hooked.messenger.healthy()


def config_with(tmp_path: Path, url: str, secret: str = SECRET) -> Path:
    path = tmp_path / "config.yaml"
    messenger = {"type": "webhook", "webhook": {"url": url, "secret": secret}}
    path.write_text(
        json.dumps(
            {
                "gateway": {"host": "127.0.0.1", "port": 8443},
                "storage": {"type": "sqlite", "path": str(tmp_path / "gate.db")},
                "agent": {"token": "an-agent-token-0123456789"},
                "approvers": [{"id": "anna", "token": "annas-token-0123456789"}],
                "messenger": messenger,
            }
        )
    )
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.1@example.com/",
        "http://localhost@example.com/",
        "http://localhost.example.com/",
        "http://localhost\\@example.com/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "https://user:password@example.com/",
        "https://user@example.com/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://a..b/",
        "https://.example.com/",
        "https://-/",
        f"https://{'a' * 64}.test/",
        "https://example.com/#there",
        "https://example.com/a b",
        "https://example.com/a\tb",
        "https://example.com/\x00",
        "https://example.com/\x7f",
        "https://example.com/\r\nHost: other",
        "https:///path",
        "https://",
        "ftp://example.com/",
        "file:///etc/passwd",
        "HTTP://10.0.0.1/",
    ],
)
def test_a_url_that_is_none_of_ours_is_refused_at_load_and_not_quoted(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(config_with(tmp_path, url))
    assert "messenger.webhook.url" in str(refused.value)
    assert "password" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "https://example.com:8443/a?b=c%20d", "https://[2001:db8::1]/x", "http://localhost:9000/"],
)
def test_other_urls_are_taken(tmp_path: Path, url: str) -> None:
    load_config(config_with(tmp_path, url))


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "short", "whsec_c2hvcnQ=", "whsec_" + "é" * 32, SECRET + "\n", SECRET * 9]
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, secret: str) -> None:
    with pytest.raises(ConfigError, match=r"messenger\.webhook\.secret"):
        load_config(config_with(tmp_path, "https://example.com/", secret))


def test_neither_url_nor_secret_is_read_in_a_log(tmp_path: Path) -> None:
    config = load_config(config_with(tmp_path, "https://hooks.example.com/services/T0PSECRET0123"))
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logs("debug", secrets_of(config), stream)
        webhook = config.every_messenger[0].webhook
        assert webhook is not None
        logging.getLogger("agent_gate.x").warning("cannot post to %s with %s", webhook.url, webhook.secret)
        logging.getLogger("agent_gate.x").warning("%r", webhook)
    finally:
        root.handlers[:], root.level = handlers, level
    assert "T0PSECRET0123" not in stream.getvalue()
    assert SECRET not in stream.getvalue()
