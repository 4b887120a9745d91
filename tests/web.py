"""A web that exists only in a test: names, servers and connections, with a note of every one that was used."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpcore2

from agent_gate import Agent, Gate
from agent_gate.config import load_policy
from agent_gate.gate.assembly import assemble
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.secrecy import KeyedHashes
from agent_gate.policy.judge import Judge
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.watching import Notifier
from agent_gate.services.http import HttpService
from agent_gate.services.http.outbound import Outbound
from agent_gate.services.registry import ToolRegistry
from agent_gate.system.clock import RandomIds, SystemClock

PUBLIC = "93.184.215.14"
LOOKUP_TIMEOUT_S = 0.5
"""So that a test with a resolver that hangs is soon over."""


class Web:
    """Looks names up, takes connections, and answers them for any host."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        """Answers per look-up; the last one stays."""
        self.pages: dict[str, Mapping[str, Any]] = {}
        """URL to `status`, `location`, `headers`, `body`; one with `hang` never answers."""
        self.hanging: set[str] = set()
        """Names whose look-up never ends; `*` is any."""
        self.failing: list[str] = []
        """Addresses whose next connection fails; `*` is any."""
        self.looked_up: list[str] = []
        self.dialled: list[str] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        """URL and headers of every request."""

    async def resolve(self, host: str) -> list[str]:
        self.looked_up.append(host)
        if host in self.hanging or "*" in self.hanging:
            await asyncio.Event().wait()
        answers = self.names.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def fails(self, address: str) -> bool:
        for who in (address, "*"):
            if who in self.failing:
                self.failing.remove(who)
                return True
        return False


class Wire(httpcore2.AsyncNetworkBackend):
    """Connections into a web; TLS is only a word here."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self._web.dialled.append(host)
        if self._web.fails(host):
            raise httpcore2.ConnectError("refused")
        return _Stream(self._web)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, web: Web) -> None:
        self._web, self._scheme = web, "http"
        self._sent, self._answer = b"", b""
        self._hangs = False

    async def start_tls(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self._scheme = "https"
        return self

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._sent += buffer
        if buffer and self._sent.endswith(b"\r\n\r\n"):
            self._answer = self._reply()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._hangs:
            await asyncio.Event().wait()
        part, self._answer = self._answer[:max_bytes], self._answer[max_bytes:]
        return part

    async def aclose(self) -> None: ...

    def _reply(self) -> bytes:
        first, *lines = self._sent.decode("ascii").split("\r\n")
        given = dict(line.split(": ", 1) for line in lines if line)
        url = f"{self._scheme}://{given['host']}{first.split(' ')[1]}"
        self._web.asked.append((url, given))
        page = self._web.pages.get(url, {})
        self._hangs = bool(page.get("hang"))
        body = page.get("body", "")
        body = body if isinstance(body, bytes) else str(body).encode()
        headers = {"Content-Length": str(len(body)), **page.get("headers", {})}
        if "location" in page:
            headers["Location"] = page["location"]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {page.get('status', 200)} X\r\n{head}\r\n".encode() + body


@asynccontextmanager
async def a_gate_to(
    web: Web,
    policy: Mapping[str, Any],
    db: Path,
    *,
    agent: Agent | None = None,
    notifier: Notifier | None = None,
    can_ask: bool = False,
    clock: Clock | None = None,
    tls: ssl.SSLContext | None = None,
    outbound: Outbound | None = None,
) -> AsyncIterator[Gate]:
    """A whole gate whose only service is HTTP, into that web; with `tls` its connections are real ones."""
    clock, ids, judge = clock or SystemClock(), RandomIds(), Judge(load_policy(policy))
    ledger = SqliteLedger(db, clock, ids)
    service = HttpService(
        ledger,
        clock,
        can_ask=can_ask,
        outbound=outbound,
        resolver=web,
        network=None if tls else Wire(web),
        tls=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        lookup_timeout_s=LOOKUP_TIMEOUT_S,
    )
    gate = assemble(
        judge=judge,
        tools=ToolRegistry(service.registered_tools()),
        ledger=ledger,
        clock=clock,
        ids=ids,
        secrets=KeyedHashes(ledger.storage.secret()),
        agent=agent or Agent("local"),
        notifier=notifier,
        can_ask=can_ask or notifier is not None,
        approval_timeout_s=60,
    )
    try:
        yield gate
    finally:
        await gate.close()
        await ledger.close()
