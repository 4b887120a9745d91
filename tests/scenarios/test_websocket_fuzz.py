"""Noise at the socket: whatever is sent, nobody else notices, no slot is kept, and the process goes on."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from agent_gate import tool
from agent_gate.doors import websocket
from agent_gate.doors.bounds import DoorBounds
from agent_gate.doors.websocket.door import Door
from agent_gate.doors.websocket.methods import METHODS
from agent_gate.hosts.server.sockets import SocketBounds
from agent_gate.model.bounds import HEAD_BYTES_MAX, MESSAGE_BYTES_MAX
from tests.gates import ASK_ALL, reader, rows, sender, soon, until
from tests.servers import BOT_TOKEN, Served, a_raw_agent, a_server

ROUNDS = 2_000 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 150
SEED = int(os.environ.get("AGENT_GATE_SEED", "20261115"))
AT_ONCE = 25
RULES: Any = {"rules": [{"pattern": "note.read*", "action": "allow"}], "boundary": "deny_by_default"}

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
AUTH = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "auth", "params": {"token": BOT_TOKEN}}).encode()
WORDS = (
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "tool_request",
    "note.read",
    "args",
    "auth",
    "token",
    "plan",
    "ids",
)


def frame(payload: bytes, first: int = 0x81, *, masked: bool = True) -> bytes:
    length = len(payload)
    size = (
        bytes([length])
        if length < 126
        else b"\x7e" + length.to_bytes(2)
        if length < 65_536
        else b"\x7f" + length.to_bytes(8)
    )
    mask = 0x80 if masked else 0
    return bytes([first, size[0] | mask]) + size[1:] + (bytes(4) if masked else b"") + payload


def some_json(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 6:
        return [some_json(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind > 6:
        return {chance.choice(WORDS): some_json(chance, depth + 1) for _ in range(chance.randrange(5))}
    return [
        None,
        True,
        chance.randrange(-5, 5),
        chance.choice(WORDS),
        chance.random(),
        "\ud800x"[chance.randrange(2) :],
    ][kind]


def a_message(chance: random.Random) -> bytes:
    """Something like a request."""
    message = {"jsonrpc": "2.0", "id": some_json(chance, 3), "method": chance.choice([*METHODS, "x"])}
    message["params"] = some_json(chance) if chance.random() < 0.7 else {"tool": "note.read", "args": some_json(chance)}
    text = json.dumps(message if chance.random() < 0.8 else some_json(chance)).encode()
    if chance.random() < 0.3:
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.randbytes(chance.randrange(4)) + text[place + chance.randrange(4) :]
    return text


Noise = Callable[[random.Random], bytes]

NOISES: Mapping[str, Noise] = {
    "nothing": lambda chance: b"",
    "no http": lambda chance: chance.randbytes(200),
    "half a head": lambda chance: UPGRADE[: chance.randrange(len(UPGRADE))],
    "a long head": lambda chance: UPGRADE[:-2] + b"X: " + b"x" * (2 * HEAD_BYTES_MAX),
    "no upgrade": lambda chance: UPGRADE.replace(b"websocket", chance.choice([b"h2c", b"", b"\xff"])),
    "silence": lambda chance: UPGRADE,
    "any bytes": lambda chance: UPGRADE + chance.randbytes(chance.randrange(1, 300)),
    "odd frames": lambda chance: UPGRADE + b"".join(
        frame(chance.randbytes(chance.randrange(130)), chance.randrange(256), masked=chance.random() < 0.8)
        for _ in range(3)
    ),
    "an endless frame": lambda chance: UPGRADE + b"\x81\xff" + (1 << chance.randrange(20, 63)).to_bytes(8) + bytes(5),
    "a huge frame": lambda chance: UPGRADE + frame(AUTH) + frame(b"x" * (MESSAGE_BYTES_MAX + 1)),
    "fragments without end": lambda chance: UPGRADE + frame(AUTH) + frame(b"{", 0x01) + frame(b"x", 0x00) * 50,
    "binary": lambda chance: UPGRADE + frame(AUTH) + frame(chance.randbytes(40), 0x82),
    "deep nesting": lambda chance: UPGRADE + frame(AUTH) + frame(b"[" * 100_000),
    "not utf-8": lambda chance: UPGRADE + frame(AUTH) + frame(b'"\xff\xfe"'),
    "before auth": lambda chance: UPGRADE + b"".join(frame(a_message(chance)) for _ in range(3)),
    "after auth": lambda chance: UPGRADE + frame(AUTH) + b"".join(frame(a_message(chance)) for _ in range(20)),
    "a close of its own": lambda chance: UPGRADE + frame(AUTH) + frame(chance.randbytes(chance.randrange(4)), 0x88),
}  # fmt: skip


IMPATIENT: dict[str, Any] = {
    "bounds": DoorBounds(handshake_timeout_s=0.3),
    "socket_bounds": SocketBounds(handshake_s=0.3, request_s=0.3, goodbye_s=0.1),
}
"""Bounds that a test can wait for."""


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> list[Door]:
    """Every door that is made."""
    made: list[Door] = []

    class Noted(Door):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(websocket, "Door", Noted)
    return made


async def upgrade(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
    """Frames come after the server has agreed; those before that are lost."""
    writing.write(UPGRADE)
    head = await soon(reading.readuntil(b"\r\n\r\n"))
    assert b" 101 " in head


async def signed_in(server: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection that has said whose it is."""
    reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
    await upgrade(reading, writing)
    writing.write(frame(AUTH))
    assert b"authenticated" in await soon(reading.read(1_000))
    return reading, writing


async def make_noise(server: Served, noise: bytes) -> None:
    """Say it, and wait until the server has had enough, or leave in the middle."""
    reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
    with suppress(OSError, EOFError):
        if noise.startswith(UPGRADE):
            await upgrade(reading, writing)
        writing.write(noise.removeprefix(UPGRADE))
        async with asyncio.timeout(0.6):
            while await reading.read(65_536):
                pass
    writing.close()
    with suppress(OSError):
        await writing.wait_closed()


async def test_noise_takes_no_slot_for_longer_than_a_handshake_may_last(tmp_path: Path, doors: list[Door]) -> None:
    chance = random.Random(SEED)
    async with a_server(tmp_path, RULES, reader([]), **IMPATIENT) as server:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with room:
                await make_noise(server, NOISES[name](chance))

        async def agents() -> None:
            for _ in range(10):
                async with a_raw_agent(server) as agent:
                    assert (await agent.ask("tool_request", tool="note.read"))["status"] == "success"

        names = [*NOISES, *(chance.choice(list(NOISES)) for _ in range(ROUNDS))]
        await asyncio.gather(agents(), *map(one, names))
        [door] = doors
        await until(lambda: not door._handshakes and not door._connections)
        await agents()


@pytest.mark.parametrize("noise", ["nothing", "half a head", "silence"])
async def test_silence_is_ended_by_the_server(tmp_path: Path, doors: list[Door], noise: str) -> None:
    async with a_server(tmp_path, **IMPATIENT) as server:
        reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
        writing.write(NOISES[noise](random.Random(1)))
        with suppress(ConnectionError):
            await soon(reading.read())  # to its end
        writing.close()


async def test_a_request_whose_body_does_not_come_is_ended(tmp_path: Path, doors: list[Door]) -> None:
    head = b"POST /api/v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\nAuthorization: Bearer "
    async with a_server(tmp_path, **IMPATIENT) as server:
        reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
        writing.write(head + BOT_TOKEN.encode() + b"\r\nContent-Type: application/json\r\n\r\n{")
        with suppress(ConnectionError):
            await soon(reading.read())
        writing.close()


async def test_a_long_head_is_refused(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
        writing.write(NOISES["a long head"](random.Random(1)))
        assert b" 400 " in await soon(reading.readline())
        writing.close()


async def test_a_reader_that_takes_nothing_is_let_go_and_its_outcomes_wait(tmp_path: Path, doors: list[Door]) -> None:
    acts: list[str] = []
    bounds = SocketBounds(goodbye_s=0.1, stalled_s=0.3)
    async with a_server(tmp_path, RULES, reader(acts), socket_bounds=bounds) as server:
        _, writing = await signed_in(server)
        size = 900_000
        for number in range(30):
            params = {"tool": "note.read", "request_id": f"r{number}", "args": {"text": "x" * size}}
            message = {"jsonrpc": "2.0", "id": number, "method": "tool_request", "params": params}
            writing.write(frame(json.dumps(message).encode()))
        [door] = doors
        await until(lambda: acts and not door._connections and not door._lingering and not server.gate._tasks.running)
        writing.transport.abort()
        waiting = rows(server.gate, "SELECT request_id FROM waiting_results")
        async with a_raw_agent(server) as agent:
            fetched: set[str] = set()
            while results := (await agent.ask("get_pending_results"))["results"]:  # as many as one answer holds
                ids = [one["request_id"] for one in results]
                fetched |= set(ids)
                assert (await agent.ask("ack_results", ids=ids))["acknowledged"] == len(ids)
            assert fetched == {row["request_id"] for row in waiting} > set()
            repeated = await agent.ask("tool_request", tool="note.read", request_id="r0", args={"text": "x" * size})
            assert repeated["status"] == "success"
        assert len(acts) <= 30


async def test_a_peer_that_answers_no_ping_is_let_go(tmp_path: Path, doors: list[Door]) -> None:
    bounds = SocketBounds(goodbye_s=0.1, ping_interval_s=0.05, ping_timeout_s=0.05)
    async with a_server(tmp_path, ASK_ALL, sender([]), socket_bounds=bounds) as server:
        reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
        await upgrade(reading, writing)
        writing.write(frame(AUTH))
        with suppress(ConnectionError):
            await soon(reading.read())
        writing.close()
        await until(lambda: not doors[0]._connections)


def reading(text: str, number: int) -> str:
    params = {"tool": "note.read", "args": {"text": text}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool_request", "params": params})


async def test_one_request_after_the_other_and_many_at_once_are_each_answered_exactly_once(
    tmp_path: Path, doors: list[Door]
) -> None:
    acts: list[str] = []
    async with a_server(tmp_path, RULES, reader(acts), **IMPATIENT) as server, a_raw_agent(server) as agent:
        for number in range(30):
            await agent.send(reading(f"single {number}", number))
            answer = await agent.receive()
            assert (answer["id"], answer["result"]["status"]) == (number, "success")
        [door] = doors
        [connection] = door._connections
        await until(lambda: not connection._answering)
        for number in range(100, 160):
            await agent.send(reading(f"many {number}", number))
        answers = [await agent.receive() for _ in range(60)]
        assert sorted(answer["id"] for answer in answers) == list(range(100, 160))
        for number in range(200, 205):
            await agent.send(reading(f"again {number}", number))
            assert (await agent.receive())["id"] == number
        assert len(acts) == len(set(acts)) == 95
    await until(lambda: not door._connections and not door._lingering)
    assert not connection._answering


async def test_a_message_in_pieces_and_messages_in_one_piece_are_requests_like_any_other(tmp_path: Path) -> None:
    acts: list[str] = []
    async with a_server(tmp_path, RULES, reader(acts)) as server:
        reading_end, writing = await signed_in(server)
        whole = reading("pieces", 1).encode()
        writing.write(frame(whole[:20], 0x01) + frame(whole[20:40], 0x00) + frame(whole[40:], 0x80))
        answered = await soon(reading_end.readuntil(b'"status":"success"'))
        assert b'"id":1,' in answered
        writing.write(b"".join(frame(reading(f"one of {number}", number).encode()) for number in range(2, 6)))
        for _ in range(4):
            await soon(reading_end.readuntil(b'"status":"success"'))
        writing.close()
    assert sorted(acts) == ["one of 2", "one of 3", "one of 4", "one of 5", "pieces"]


def some_frames(chance: random.Random, text: bytes) -> bytes:
    """A message as an agent may send it: in one piece or in several, with control frames in between."""
    ping, pong = frame(b"are you there", 0x89), frame(b"", 0x8A)
    if chance.random() < 0.6:
        return chance.choice([b"", b"", ping, pong]) + frame(text)
    place = chance.randrange(len(text))
    between = chance.choice([b"", ping, pong])
    return frame(text[:place], 0x01) + between + frame(text[place:], 0x80)


@pytest.mark.parametrize("sizes", [(1, 100), (1, 100, 70_000)])
@pytest.mark.parametrize("cut", ["between messages", "anywhere"])
async def test_however_a_stream_is_cut_each_request_is_answered_exactly_once(
    tmp_path: Path, cut: str, sizes: tuple[int, ...]
) -> None:
    chance, acts = random.Random(SEED), list[str]()
    texts = [f"{number} " + "x" * chance.choice(sizes) for number in range(60)]
    async with a_server(tmp_path, RULES, reader(acts)) as server:
        answers, writing = await signed_in(server)
        pieces = [some_frames(chance, reading(text, number).encode()) for number, text in enumerate(texts)]
        if cut == "anywhere":
            whole, pieces = b"".join(pieces), []
            while whole:
                size = chance.choice([1, 2, 5, 50, 5_000, 200_000])
                pieces.append(whole[:size])
                whole = whole[size:]
        for piece in pieces:
            writing.write(piece)
            await asyncio.sleep(0)
        seen = b""
        while seen.count(b'"status":"success"') < len(texts):
            seen += await soon(answers.read(1_000_000))
        writing.close()
    assert sorted(acts) == sorted(texts)
    assert sorted(int(number) for number in re.findall(rb'"id":(\d+),', seen)) == list(range(60))


async def test_a_call_that_waits_for_a_person_holds_up_no_other(tmp_path: Path, doors: list[Door]) -> None:
    acts: list[str] = []
    policy: Any = {"rules": [{"pattern": "note.read(free*)", "action": "allow"}]}
    async with a_server(tmp_path, policy, reader(acts), **IMPATIENT) as server:
        async with a_raw_agent(server) as agent:
            await agent.send(reading("held", 1))
            await until(lambda: rows(server.gate, "SELECT 1 FROM pending_requests"))
            for number in range(2, 12):
                await agent.send(reading(f"free {number}", number))
                assert (await agent.receive())["id"] == number
            [connection] = doors[0]._connections
            await until(lambda: len(connection._answering) == 1)
        await until(lambda: not doors[0]._connections and len(connection._answering) == 1)
    assert len(acts) == 10


async def test_what_a_tool_leaves_behind_in_its_task_meets_no_other_call(tmp_path: Path) -> None:
    word: ContextVar[str] = ContextVar("word", default="unsaid")
    tasks: list[asyncio.Task[Any]] = []

    @tool("note.read", effect="read", risk="low", cost=0)
    async def careless(text: str) -> str:
        task, before = asyncio.current_task(), word.get()
        assert task is not None
        word.set(text)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        tasks.append(task)
        return before

    async with a_server(tmp_path, RULES, careless) as server, a_raw_agent(server) as agent:
        for number in range(20):
            await agent.send(reading("good", number))
            answer = await agent.receive()
            assert (answer["id"], answer["result"]["data"]) == (number, "unsaid")
            asyncio.get_running_loop().call_later(0.001, tasks.pop().cancel)


async def test_a_tool_that_cancels_its_own_task_while_its_call_is_settled_leaves_no_agent_without_an_answer(
    tmp_path: Path,
) -> None:
    @tool("note.read", effect="read", risk="low", cost=0)
    async def reckless(text: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        return text

    async with a_server(tmp_path, RULES, reckless) as server, a_raw_agent(server) as agent:
        await agent.send(reading("x", 1))
        answer = await agent.receive()
        assert answer["id"] == 1
        assert answer["error"]["code"] == -32603
        await until(lambda: rows(server.gate, "SELECT 1 FROM entries WHERE tool = 'note.read' AND status = 'success'"))


@pytest.mark.parametrize("path", ["straight", "queued"])
async def test_what_holds_for_a_connection_holds_for_its_requests_whichever_way_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    word: ContextVar[str] = ContextVar("word", default="lost")

    @tool("note.read", effect="read", risk="low", cost=0)
    async def telling(text: str) -> str:
        return word.get() + text

    serve = Door._serve

    async def serve_marked(self: Door, *args: Any) -> None:
        word.set("kept")
        await serve(self, *args)

    monkeypatch.setattr(Door, "_serve", serve_marked)
    bounds = DoorBounds()
    if path == "queued":
        bounds = DoorBounds(straight_max=0)
    async with a_server(tmp_path, RULES, telling, bounds=bounds) as server, a_raw_agent(server) as agent:
        await agent.send(reading("!", 1))
        assert (await agent.receive())["result"]["data"] == "kept!"
