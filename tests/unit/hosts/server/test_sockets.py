"""The short way of a WebSocket: whatever comes, however it is cut, it shows what the library's way would show."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.utils import apply_mask

from agent_gate.doors.websocket import LINE
from agent_gate.hosts.server.frames import text_frame
from agent_gate.hosts.server.sockets import BoundedConfig, WebSocket
from agent_gate.model.bounds import MESSAGE_BYTES_MAX

STREAMS = 4_000 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 250
SEED = int(os.environ.get("AGENT_GATE_SEED", "20261115"))
HEAD = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CLOSE = b"\x88\x82\0\0\0\0\x03\xe8"
Take = Callable[[bytes], bool]


class Wire(asyncio.Transport):
    """A transport in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.is_closed, self.is_paused = b"", False, False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Met:
    """One connection, with an application that notes what reaches it by either way."""

    def __init__(self, kind: type[WebSocketsSansIOProtocol], take: Take | None = None) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.straight = 0
        self.send: Send | None = None
        self._take = take or (lambda _: True)
        config = BoundedConfig(
            self._app,
            ws_max_size=MESSAGE_BYTES_MAX,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
        )
        config.load()
        config.loaded_app = self._app
        self.wire = Wire()
        self.protocol = kind(config, ServerState(), {}, asyncio.get_running_loop())

    async def begin(self) -> None:
        self.protocol.connection_made(self.wire)
        self.protocol.data_received(HEAD)
        await turns(6)
        assert self.wire.sent.startswith(b"HTTP/1.1 101")
        self.wire.sent = b""

    async def end(self) -> None:
        self.protocol.connection_lost(None)
        await turns(20)

    def _straight(self, text: bytes) -> bool:
        try:
            told = text.decode()
        except UnicodeDecodeError:
            return False
        if not self._take(text):
            return False
        self.seen.append(("text", told))
        self.straight += 1
        return True

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        self.send = send
        if LINE in scope["extensions"]:
            scope["extensions"][LINE]["line"].known(self._straight)
        while (event := await receive())["type"] == "websocket.receive":
            self.seen.append(("text", event["text"]) if event.get("text") is not None else ("bytes", event["bytes"]))
        self.seen.append(("end", event.get("code")))


async def a_line() -> tuple[Met, WebSocket]:
    """One of ours that is open."""
    met = Met(WebSocket)
    await met.begin()
    assert isinstance(met.protocol, WebSocket)
    return met, met.protocol


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def frame(chance: random.Random, payload: bytes, first: int = 0x81, *, masked: bool = True, form: int = 0) -> bytes:
    """`form` 2 or 8 writes the length in so many bytes, though fewer would do."""
    size = len(payload)
    form = form or (1 if size < 126 else 2 if size < 65_536 else 8)
    length = bytes([size]) if form == 1 else bytes([126 if form == 2 else 127]) + size.to_bytes(form)
    if not masked:
        return bytes([first]) + length + payload
    mask = chance.randbytes(4)
    return bytes([first, length[0] | 0x80]) + length[1:] + mask + apply_mask(payload, mask)


def some_frames(chance: random.Random, number: int) -> list[bytes]:
    """Mostly texts in one piece, and now and then whatever else may come."""
    text = (f"{number} " + "é" * chance.choice([0, 1, 5, 70, 200])).encode()
    place = chance.randrange(len(text) + 1)
    between = [frame(chance, b"ping", 0x89)] if chance.random() < 0.5 else []
    ways: list[tuple[float, list[bytes]]] = [
        (50, [frame(chance, text)]),
        (5, [frame(chance, text, form=chance.choice([2, 8]))]),
        (12, [frame(chance, text[:place], 0x01), *between, frame(chance, text[place:], 0x80)]),
        (8, [frame(chance, b"ping", 0x89)]),
        (5, [frame(chance, chance.randbytes(4), 0x8A)]),
        (3, [frame(chance, b"bytes", 0x82)]),
        (2, [frame(chance, b"\xff\xfe is not UTF-8")]),
        (2, [frame(chance, text[:60], masked=False)]),
        (2, [frame(chance, text, chance.choice([0xC1, 0x83, 0x80, 0x00, 0x91]))]),
        (2, [frame(chance, b"\x03\xe8bye", 0x88)]),
        (2, [frame(chance, text, 0x01)]),
        (2, [frame(chance, b"")]),
        (1, [frame(chance, b"x" * chance.choice([65_535, 65_536, 70_000]))]),
        (3, [chance.randbytes(chance.randrange(1, 20))]),
    ]
    return chance.choices([found for _, found in ways], [weight for weight, _ in ways])[0]


def cut(chance: random.Random, frames: list[bytes]) -> list[bytes]:
    """Between frames, after several of them, or anywhere."""
    way = chance.random()
    if way < 0.4:
        return frames
    pieces, rest = [], b"".join(frames)
    while way < 0.6 and frames:
        count = chance.randrange(1, 4)
        pieces.append(b"".join(frames[:count]))
        frames = frames[count:]
    while way >= 0.6 and rest:
        size = chance.choice([1, 2, 3, 6, 7, 50, 300, 5_000, 100_000])
        pieces.append(rest[:size])
        rest = rest[size:]
    return pieces


async def shown(kind: type[WebSocketsSansIOProtocol], pieces: list[bytes], seed: int) -> tuple[Any, Met]:
    """What the application and the peer see of a stream; now and then the door does not take what is offered."""
    chance = random.Random(seed)
    share = chance.choice([0.0, 0.0, 0.3, 1.0])
    met = Met(kind, lambda _: chance.random() >= share)
    await met.begin()
    for piece in pieces:
        while met.wire.is_paused and not met.wire.is_closed:
            await turns(1)
        if met.wire.is_closed:
            break
        try:
            met.protocol.data_received(piece)
        except InvalidState:  # of the library alone: text that is not UTF-8, and a goodbye, in one piece
            assert kind is not WebSocket
            met.wire.close()
    await turns(60)
    seen = met.wire.sent, met.wire.is_closed
    await met.end()
    return (met.seen, *seen), met


async def test_any_stream_however_it_is_cut_shows_the_same_by_the_short_way(caplog: pytest.LogCaptureFixture) -> None:
    straight = 0
    for seed in range(SEED, SEED + STREAMS):
        chance = random.Random(seed)
        pieces = cut(chance, [piece for number in range(10) for piece in some_frames(chance, number)])
        expected, _ = await shown(WebSocketsSansIOProtocol, pieces, seed)
        found, met = await shown(WebSocket, pieces, seed)
        assert found == expected, seed
        straight += met.straight
    assert straight > STREAMS
    caplog.clear()


async def test_while_a_message_waits_or_answers_are_not_read_the_next_one_waits_too() -> None:
    met = Met(WebSocket)
    await met.begin()
    chance = random.Random(SEED)
    met.protocol.pause_writing()
    met.protocol.data_received(frame(chance, b"first"))
    met.protocol.resume_writing()
    met.protocol.data_received(frame(chance, b"second"))
    assert met.straight == 0
    assert met.wire.is_paused
    await turns(10)
    met.protocol.data_received(frame(chance, b"third"))
    assert met.straight == 1
    assert [text for _, text in met.seen] == ["first", "second", "third"]
    await met.end()


async def test_nothing_is_begun_or_said_after_a_goodbye_from_here() -> None:
    met, line = await a_line()
    assert met.send is not None
    assert line.say(b"hello")
    assert met.wire.sent == text_frame(b"hello")
    await met.send({"type": "websocket.close", "code": 1012, "reason": ""})
    sent = met.wire.sent
    line.data_received(frame(random.Random(SEED), b"late"))
    assert not line.say(b"late")
    assert (met.wire.sent, met.straight) == (sent, 0)
    await met.end()


@pytest.mark.parametrize("by", ["close", "abort"])
async def test_nothing_is_said_to_a_peer_that_has_gone(by: str) -> None:
    met, line = await a_line()
    if by == "close":
        line.data_received(CLOSE)
    else:
        await met.end()
    sent = met.wire.sent
    assert not line.say(b"late")
    assert met.wire.sent == sent
    if by == "close":
        await met.end()


async def test_to_a_peer_that_reads_slowly_nothing_is_said_at_once() -> None:
    met, line = await a_line()
    line.pause_writing()
    assert not line.say(b"later")
    line.resume_writing()
    assert line.say(b"now")
    await met.end()
