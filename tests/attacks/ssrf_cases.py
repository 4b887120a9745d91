"""URLs through a whole gate, with names and servers that exist only in the case; every address dialled is noted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpcore2

from agent_gate import Agent, Gate
from agent_gate.app import wire
from agent_gate.config import load_policy
from agent_gate.ledger.sqlite import SqliteLedger
from agent_gate.model.outcome import Status
from agent_gate.policy.judge import Judge
from agent_gate.services.http import HttpService
from agent_gate.services.registry import ToolRegistry
from agent_gate.system import RandomIds, SystemClock
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed

CHECKS = frozenset({"never_connect", "never_resolve", "max_lookups", "max_connections", "must_not_contain"})

LOOKUP_TIMEOUT_S = 0.5
"""So that a case with a resolver that hangs is soon over."""

_FIELDS = {
    "allow_domains": "allow_domains",
    "allow_schemes": "allow_schemes",
    "allow_ports": "allow_ports",
    "block_private": "deny_private_ips",
    "max_redirects": "max_redirects",
    "max_response_bytes": "max_response_bytes",
    "max_bytes": "max_response_bytes",
    "timeout_s": "timeout_seconds",
    "timeout_seconds": "timeout_seconds",
}


def run(case: Case, root: Path) -> str:
    world = World(case.setup)
    with world.environment():
        status, data = asyncio.run(_call(case, root, world))
    _check(case, world, data)
    return {Status.SUCCESS: "allow", Status.DENIED: "deny"}.get(status, "error")


async def _call(case: Case, root: Path, world: World) -> tuple[Status, str]:
    section = {_FIELDS[name]: value for name, value in case.policy.items() if name in _FIELDS}
    policy: dict[str, Any] = {"version": 1, "tools": {"http.get": section}}
    if case.policy.get("default") == "deny":
        policy["boundary"] = "deny_by_default"
    async with a_gate(policy, root / "gate.db", world) as gate:
        outcome = await gate.call("http.get", dict(case.args))
    return outcome.status, str(outcome.to_json())


@asynccontextmanager
async def a_gate(policy: Mapping[str, Any], db: Path, world: World) -> AsyncIterator[Gate]:
    clock, ids, judge = SystemClock(), RandomIds(), Judge(load_policy(policy))
    ledger = SqliteLedger(db, clock, ids)
    service = HttpService(
        ledger, clock, can_ask=False, resolver=world, network=Wire(world), lookup_timeout_s=LOOKUP_TIMEOUT_S
    )
    registry = ToolRegistry(service.hands())
    gate = wire(ledger, judge, registry, clock, ids, Agent("local"), None, can_ask=False, approval_timeout_s=1)
    try:
        yield gate
    finally:
        await gate.close()


def _check(case: Case, world: World, data: str) -> None:
    reached = set(world.dialled) & set(case.check.get("never_connect", ()))
    if reached:
        raise CheckFailed(f"connected to {', '.join(sorted(reached))}")
    told = set(world.looked_up) & set(case.check.get("never_resolve", ()))
    if told:
        raise CheckFailed(f"looked up {', '.join(sorted(told))}")
    for count, check in ((len(world.looked_up), "max_lookups"), (len(world.dialled), "max_connections")):
        if count > case.check.get(check, count):
            raise CheckFailed(f"{count} of {check} {case.check[check]}")
    for text in case.check.get("must_not_contain", ()):
        if text in data:
            raise CheckFailed(f"the outcome holds {text!r}")


class World:
    """Names, servers and environment of one case; a resolver itself."""

    def __init__(self, setup: Iterable[Mapping[str, Any]]) -> None:
        self.dialled: list[str] = []
        self.looked_up: list[str] = []
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.failures: list[str] = []
        """Addresses whose first connection fails; `*` is the very first of all."""
        self._names: dict[str, list[list[str]]] = {}
        self._hanging: set[str] = set()
        self._environment: dict[str, str] = {}
        for step in setup:
            self._arrange(step)

    def _arrange(self, step: Mapping[str, Any]) -> None:
        for name, answers in step.get("dns", {}).items():
            self._names[_bare(name)] = [*answers]
        if "dns_hang" in step:
            self._hanging.update(_hosts(step["dns_hang"]))
        self.answers.update(step.get("http", {}))
        if "connect_fail_first" in step:
            self.failures += _hosts(step["connect_fail_first"])
        self._environment.update(step.get("env", {}))

    @contextmanager
    def environment(self) -> Iterator[None]:
        with patch.dict(os.environ, self._environment):
            yield

    async def resolve(self, host: str) -> list[str]:
        self.looked_up.append(host)
        if host in self._hanging or "*" in self._hanging:
            await asyncio.Event().wait()
        answers = self._names.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def fails(self, address: str) -> bool:
        for who in (address, "*"):
            if who in self.failures:
                self.failures.remove(who)
                return True
        return False


def _bare(name: str) -> str:
    return name.lower().removesuffix(".")


def _hosts(value: Any) -> list[str]:
    """`true` means any."""
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return [_bare(value)] if isinstance(value, str) else ["*"] if value else []


class Wire(httpcore2.AsyncNetworkBackend):
    """A network on which every public address answers for any host."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self._world.dialled.append(host)
        if self._world.fails(host):
            raise httpcore2.ConnectError("refused")
        return _Stream(self._world)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, world: World) -> None:
        self._world, self._scheme = world, "http"
        self._sent, self._answer = b"", b""

    async def start_tls(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self._scheme = "https"
        return self

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._sent += buffer
        if self._sent.endswith(b"\r\n\r\n"):
            self._answer = self._reply()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        part, self._answer = self._answer[:max_bytes], self._answer[max_bytes:]
        return part

    async def aclose(self) -> None: ...

    def _reply(self) -> bytes:
        first, *lines = self._sent.decode("ascii").split("\r\n")
        host = next(line for line in lines if line.lower().startswith("host:"))[5:].strip()
        url = f"{self._scheme}://{host}{first.split(' ')[1]}"
        answer = self._world.answers.get(url, {})
        body = answer.get("body", "")
        body = body if isinstance(body, bytes) else str(body).encode()
        body *= max(1, answer.get("repeat", 1))
        if "body_bytes" in answer:
            body = b"x" * answer["body_bytes"]
        headers = {"Content-Length": str(len(body)), **answer.get("headers", {})}
        if "location" in answer:
            headers["Location"] = answer["location"]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {answer.get('status', 200)} X\r\n{head}\r\n".encode() + body
