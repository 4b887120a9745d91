"""How long one request can keep the event loop from everybody else: the largest and oddest inputs at every door.

Measured against decoding the same bytes, of the message and of the state that it works on; a long plain text, which
takes next to no time to decode, counts as so many bytes of ordinary JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from agent_gate import Agent, open_gate, transition
from agent_gate.config import AgentConfig, Config, GatewayConfig, RateLimitConfig, ServicesConfig, StorageConfig
from agent_gate.doors.context import ServerContext
from agent_gate.doors.identity import Identities
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.mcp.lines import Lines
from agent_gate.doors.mcp.stdio import Conversation
from agent_gate.gate.approvals import Approvals
from agent_gate.gate.gate import Gate
from agent_gate.gate.mailbox import Mailbox
from agent_gate.hosts.server.app import build_app
from agent_gate.model.bounds import MESSAGE_BYTES_MAX, SCRIPT_CHARS_MAX, WORD_BYTES_MAX
from bench.figure import Figure, at_most

BYTES = MESSAGE_BYTES_MAX - 4_096
WORD_BYTES = WORD_BYTES_MAX - 1_024
SCRIPT_CHARS = SCRIPT_CHARS_MAX - 8
BYTES_MIN = 65_536
"""Every request costs something, however small it is."""
ROUNDS = 3
BEAT_S = 0.001
TOKEN = "token-of-the-bench-0123456789abcdef"
PROGRAMS = ["sed", "awk", "grep", "git", "jq", "find", "cat", "ls", "tar", "echo", "sort", "head", "wc"]
POLICY: dict[str, Any] = {
    "rules": [{"pattern": f"{name}*", "action": "allow"} for name in ("state.", "think.", "gate.")],
    "tools": {
        "fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/.env", "**/*secret*/**"]},
        "fs.write": {"allow_paths": ["./out/**"]},
        "http.get": {"allow_domains": ["*.example.org"]},
        "shell.run": {"allow_executables": PROGRAMS, "deny_tokens": ["rm -rf", "/etc/shadow"]},
    },
}


@dataclass(frozen=True)
class Case:
    name: str
    tool: str
    args: dict[str, Any]
    state: Any = None
    """What the project holds before."""


Send = Callable[[], Awaitable[None]]
Door = Callable[[Case], Send]
"""Makes a case's message ready, which is the sender's own work."""


def figures(directory: Path) -> Iterator[Figure]:
    stalls = asyncio.run(_stalls(directory.resolve() / "stalls"))
    case, (stall_s, reference_s) = max(stalls.items(), key=lambda each: each[1][0] / each[1][1])
    told = f"decoding the same bytes; {case}, the worst of {len(stalls)}"
    yield at_most("longest stall of the event loop by a request", stall_s * 1e3, reference_s * 1e3, told, "ms", 10)


async def _stalls(root: Path) -> dict[str, tuple[float, float]]:
    (root / "out").mkdir(parents=True)
    rate = _decoding_s_each_byte()
    found = {}
    async with _doors(root) as (gate, doors):
        for case in cases():
            texts = json.dumps(case.args), json.dumps(case.state)
            reference_s = max(sum(map(_decoding_s, texts)), max(sum(map(len, texts)), BYTES_MIN) * rate)
            for door, ready in doors.items():
                stall_s = min([await _stall(gate, case, ready(case)) for _ in range(ROUNDS)])
                found[f"{case.name} at {door}"] = stall_s, reference_s
    return found


async def _stall(gate: Gate, case: Case, send: Send) -> float:
    if case.state is not None:
        outcome = await gate.call("state.set", path="", value=case.state)
        assert outcome.ok, outcome
    probe = Probe()
    async with probe.watching():
        await send()
    return probe.longest_s


class Probe:
    """A beat on the loop, and how late the latest one was."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._beat())
        await asyncio.sleep(5 * BEAT_S)
        self.longest_s = 0.0
        try:
            yield
            await asyncio.sleep(5 * BEAT_S)
        finally:
            task.cancel()

    async def _beat(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - began - BEAT_S)


def _decoding_s_each_byte() -> float:
    text = json.dumps([{"id": number, "name": f"room {number}", "on": True} for number in range(BYTES // 44)])
    return _decoding_s(text) / len(text)


def _decoding_s(text: str) -> float:
    rounds = []
    for _ in range(3):
        started = time.process_time()
        json.loads(text)
        rounds.append(time.process_time() - started)
    return min(rounds)


@transition("think.long")
def think(_: dict[str, Any], state: Any) -> tuple[Any, str]:
    """A pure function of somebody's own, that takes its time."""
    ends_at = time.monotonic() + 0.1
    while time.monotonic() < ends_at:
        pass
    return state, "thought"


@asynccontextmanager
async def _doors(root: Path) -> AsyncIterator[tuple[Gate, dict[str, Door]]]:
    config = Config(
        GatewayConfig("127.0.0.1", 0),
        None,
        None,
        ServicesConfig(),
        StorageConfig(),
        rate_limit=RateLimitConfig(10, 1_000_000_000),
        agents=(AgentConfig(TOKEN, "bench"),),
    )
    async with open_gate(POLICY, root / "gate.db", tools=[think], working_dir=root) as gate:
        context = ServerContext(gate, Approvals(gate), Mailbox(gate), Identities(config), config)
        app = build_app(context)
        async with _mcp(McpDoor(Calls(gate, Agent("bench"), "default", 20.0))) as mcp:
            yield gate, {**_http(app), **_websocket(app), "mcp": mcp}


@asynccontextmanager
async def _mcp(door: McpDoor) -> AsyncIterator[Door]:
    """A client at the other end of two pipes; it writes and reads in threads."""
    names = {name: shown for shown, name in door._tools.items()}
    (reading, sending), (receiving, writing) = os.pipe(), os.pipe()
    talk = asyncio.create_task(Conversation(door, Lines(reading, writing), asyncio.Event()).hold())
    with os.fdopen(sending, "wb") as out, os.fdopen(receiving, "rb") as answers:

        def write(line: bytes) -> None:
            out.write(line)
            out.flush()

        async def ask(method: str, params: Mapping[str, Any]) -> None:
            await answered(_line({"id": 1, "method": method, "params": params}))

        async def answered(line: bytes) -> None:
            await asyncio.to_thread(write, line)
            await asyncio.to_thread(answers.readline)

        def ready(case: Case) -> Send:
            params = {"name": names[case.tool], "arguments": case.args}
            line = _line({"id": 1, "method": "tools/call", "params": params})
            return lambda: answered(line)

        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        await ask("initialize", hello)
        await asyncio.to_thread(write, _line({"method": "notifications/initialized"}))
        yield ready
    await talk


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _http(app: ASGIApp) -> dict[str, Door]:
    def call(case: Case) -> dict[str, Any]:
        return {"tool": case.tool, "args": case.args}

    def plan(case: Case) -> dict[str, Any]:
        return {"plan": {"version": "1.0", "steps": [call(case)]}}

    def post(path: str, fields: Mapping[str, Any]) -> Send:
        body = json.dumps(fields).encode()
        return lambda: _posted(app, f"/api/v1{path}", body)

    return {
        "http calls": lambda case: post("/calls", call(case)),
        "http simulate": lambda case: post("/simulate", call(case)),
        "http plans": lambda case: post("/plans", plan(case)),
    }


def _scope(kind: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def _posted(app: ASGIApp, path: str, body: bytes) -> None:
    headers = [
        (b"host", b"127.0.0.1"),
        (b"authorization", f"Bearer {TOKEN}".encode()),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = _scope("http", path, headers) | {"method": "POST"}
    waiting = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
    statuses: list[int] = []

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    assert statuses[0] < 500


def _websocket(app: ASGIApp) -> dict[str, Door]:
    def ask(method: str, params: Mapping[str, Any]) -> Send:
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return lambda: _asked(app, text)

    return {
        "websocket": lambda case: ask("tool_request", {"tool": case.tool, "args": case.args}),
        "websocket simulate": lambda case: ask("simulate", {"tool": case.tool, "args": case.args}),
    }


async def _asked(app: ASGIApp, text: str) -> None:
    """One connection, one request, its answer."""
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = _scope("websocket", "/ws", headers) | {"subprotocols": []}
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    answered = asyncio.Event()
    incoming.put_nowait({"type": "websocket.connect"})
    incoming.put_nowait({"type": "websocket.receive", "text": text})

    async def send(message: Message) -> None:
        if message["type"] in ("websocket.send", "websocket.close"):
            answered.set()

    serving = asyncio.create_task(_served(app, scope, incoming, send))
    await answered.wait()
    incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await serving


async def _served(app: ASGIApp, scope: Any, incoming: asyncio.Queue[Message], send: Any) -> None:
    await app(scope, incoming.get, send)


def repeated(part: Any, size: int = 0) -> list[Any]:
    """A list of so many that it takes about all the bytes there may be."""
    return [part] * max(1, (size or BYTES) // (len(json.dumps(part)) + 2))


def odd_values() -> dict[str, Any]:
    nested: Any = 0
    for _ in range(50):
        nested = [nested]
    few = BYTES // 12
    return {
        "a long text": "x" * BYTES,
        "a text beyond the BMP": "\U0001f600" * (BYTES // 12),
        "a text of escapes": "\u0001" * (BYTES // 6),
        "numbers": repeated(0),
        "large numbers": repeated(1e21),
        "fractions": repeated(0.1),
        "whole fractions": [*repeated(21.5), 21.0],
        "truths": repeated(True),
        "nulls": repeated(None),
        "empty texts": repeated(""),
        "empty objects": repeated({}),
        "deep lists": repeated(nested),
        "keys": {f"k{number}": number for number in range(few // 2)},
        "keys beyond the BMP": {f"\U0001f600{number}": number for number in range(few // 3)},
        "a long key": {"k" * (BYTES // 2): repeated(0, BYTES // 2)},
        "references": repeated("${steps.g.data}"),
        "long digits": "${steps.g.data." + "9" * 5_000 + "}",
    }


def cases() -> Iterator[Case]:
    for name, value in odd_values().items():
        yield Case(f"state.set of {name}", "state.set", {"path": "/a", "value": value}, {})
    yield from _changes()
    yield from _files()
    yield from _commands()
    yield from _fetches()
    yield Case("a pure function that takes long", "think.long", {}, {})


def _changes() -> Iterator[Case]:
    count = BYTES // 8
    numbers = list(range(count))
    shuffled = [number * 7_919 % count for number in numbers]
    objects = [{"n": number} for number in range(BYTES // 16)]
    yield Case("state.set of shuffled numbers", "state.set", {"path": "/a", "value": shuffled}, {"a": numbers})
    yield Case("state.set of other objects", "state.set", {"path": "/a", "value": objects[::-1]}, {"a": objects})
    other = {f"b{n}": n for n in range(BYTES // 20)}
    yield Case("state.set of other keys", "state.set", {"path": "", "value": other}, {f"a{key}": 1 for key in other})
    long_key = {"k" * (BYTES // 2): repeated(0, BYTES // 2)}
    yield Case("state.set below a long key", "state.set", {"path": "", "value": {}}, long_key)
    yield Case("state.get of a large state", "state.get", {"path": ""}, {"a": objects})
    yield Case("state.get of a long path", "state.get", {"path": "/a" * (BYTES // 2)}, {"a": 1})
    yield Case("state.set of a long path", "state.set", {"path": "/a" * (BYTES // 2), "value": 1}, {})
    yield Case("state.delete of a place of many digits", "state.delete", {"path": "/a/" + "9" * BYTES}, {"a": [1]})
    copies = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(1_000)]
    yield Case("state.patch of copies of copies", "state.patch", {"patch": copies}, {"a": "x" * 1_000})
    first = [{"op": "add", "path": "/a/0", "value": 0} for _ in range(1_000)]
    yield Case("state.patch at the head of a list", "state.patch", {"patch": first}, {"a": numbers})
    tests = [{"op": "test", "path": "/a", "value": []} for _ in range(1_000)]
    yield Case("state.patch of tests", "state.patch", {"patch": tests}, {"a": numbers})


def _files() -> Iterator[Case]:
    for name, text in {"x": "x", "a control": "\u0001", "beyond the BMP": "\U0001f600"}.items():
        content = text * (BYTES // len(json.dumps(text)[1:-1]))
        yield Case(f"fs.write of {name}", "fs.write", {"path": "out/a.txt", "content": content})
    for path in ("a/" * 2_000, "../" * 1_300, "a" * BYTES, "\u0001" * 600):
        yield Case(f"fs.read of {path[:3]!a}…", "fs.read", {"path": path})


SCRIPTS = (
    ("sed", "s/[[.", "[."), ("sed", "s/[", "[="), ("sed", "", "p;"), ("sed", "", "{"), ("sed", "a", "\\\n"),
    ("awk", "", "("), ("awk", "", "/[/"), ("awk", "/[", "/x"), ("awk", "", '"'), ("awk", "", "a/"),
    ("jq", "", ".["), ("grep", "", "\\("), ("git", "log", "^{"), ("find", "", "("), ("echo", "", "'"),
)  # fmt: skip


def _commands() -> Iterator[Case]:
    for program, start, part in SCRIPTS:
        for size, told in ((WORD_BYTES, "longest"), (SCRIPT_CHARS, "long")):
            word = start + part * (size // len(json.dumps(part)[1:-1]))
            yield Case(f"shell.run of {program} {start}{part!a}…, {told}", "shell.run", {"argv": [program, word]})
    for program in ("git", "awk", "cat", "grep", "tar"):
        yield Case(f"shell.run of {program} a=1…", "shell.run", {"argv": [program, *["a=1"] * 15_000]})
    for part in ("a ", "'a' ", '"\\"', "\\ ", "$("):
        text = part * (BYTES // len(json.dumps(part)[1:-1]))
        yield Case(f"shell.run of the text {part!a}…", "shell.run", {"command": text})


def _fetches() -> Iterator[Case]:
    for part in ("%2e%2e/", "../", "a.", "%", "@", "é"):
        yield Case(f"http.get of {part!a}…", "http.get", {"url": f"https://denied.test/{part * (8_000 // len(part))}"})
        yield Case(f"http.get of the host {part!a}…", "http.get", {"url": f"https://{part * 2_000}.test/"})
