"""Peers that speak HTTP/2 frame by frame, so that a message can end in every way that the protocol has."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.gates import PATIENCE_S

Pieces = tuple[bytes, ...]


@dataclass(frozen=True)
class Shape:
    """How a message is framed after its headers."""

    pieces: Pieces = ()
    trailers: bool = False
    length: bool = False
    """Whether the headers announce the length."""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def ends_with_headers(self) -> bool:
        return not self.pieces and not self.trailers


SHAPES: Mapping[str, Shape] = {
    "headers alone": Shape(),
    "an empty piece": Shape((b"",)),
    "one piece": Shape((b"three beers",)),
    "one piece of known length": Shape((b"three beers",), length=True),
    "several pieces": Shape((b"three", b"", b" beers" * 20_000, b".")),
    "trailers alone": Shape(trailers=True),
    "trailers after an empty piece": Shape((b"",), trailers=True),
    "trailers after a body": Shape((b"three", b" beers"), trailers=True),
}


@dataclass
class Message:
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)
    ended: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def status(self) -> int:
        return int(self.header(":status") or 0)


class Wire:
    """One connection, and the messages that came on it by stream."""

    def __init__(self, connected: socket.socket, *, client: bool) -> None:
        self.socket = connected
        config = h2.config.H2Configuration(client_side=client, header_encoding="latin-1")
        config.validate_outbound_headers = config.normalize_outbound_headers = False
        self.h2 = h2.connection.H2Connection(config)
        self.messages: dict[int, Message] = {}
        self.over: set[int] = set()
        """Streams that were ended or reset, also while we were still sending."""
        connected.settimeout(PATIENCE_S)
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def send(self, stream: int, headers: Sequence[tuple[str, str | bytes]], shape: Shape) -> None:
        fields = [*headers, ("content-length", str(len(shape.body)))] if shape.length else headers
        given = [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in fields]
        self.h2.send_headers(stream, given, end_stream=shape.ends_with_headers)
        for number, piece in enumerate(shape.pieces):
            last = number == len(shape.pieces) - 1 and not shape.trailers
            self._send_piece(stream, piece, end=last)
        if shape.trailers:
            self.h2.send_headers(stream, [("x-trailer", "yes")], end_stream=True)
        self.flush()

    def _send_piece(self, stream: int, piece: bytes, *, end: bool) -> None:
        """As fast as the other side lets us."""
        while True:
            size = min(len(piece), self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if size or not piece:
                self.h2.send_data(stream, piece[:size], end_stream=end and size == len(piece))
                self.flush()
                piece = piece[size:]
                if not piece:
                    return
            else:
                self.receive()

    def receive(self) -> list[int]:
        """Takes in what comes; the streams whose message has ended with it."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionError("the other side has hung up")
        ended = []
        for event in self.h2.receive_data(data):
            stream = getattr(event, "stream_id", 0) or 0
            message = self.messages.setdefault(stream, Message())
            match event:
                case h2.events.RequestReceived() | h2.events.ResponseReceived():
                    message.headers = list(event.headers)  # type: ignore[arg-type]  # text, by header_encoding
                case h2.events.DataReceived():
                    message.body += event.data or b""
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                case h2.events.TrailersReceived():
                    message.trailers = list(event.headers)  # type: ignore[arg-type]  # text, by header_encoding
                case h2.events.StreamEnded():
                    message.ended = True
                    ended.append(stream)
                case h2.events.StreamReset():
                    ended.append(stream)
                case _:
                    pass
        self.over.update(ended)
        self.flush()
        return ended


def ask(
    port: int,
    path: str,
    shape: Shape,
    headers: Mapping[str, str],
    method: str = "POST",
    authority: bytes = b"127.0.0.1",
) -> Message:
    """One request on a connection of its own; what came before the stream or the connection was ended, where it was."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connected:
        wire = Wire(connected, client=True)
        line: list[tuple[str, str | bytes]] = [
            (":method", method),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
        ]
        # A refusal may come while we still send; then the rest is not wanted.
        with suppress(h2.exceptions.StreamClosedError):
            wire.send(1, [*line, *headers.items()], shape)
        with suppress(ConnectionError):
            while 1 not in wire.over:
                wire.receive()
        return wire.messages.get(1, Message())


Answering = Callable[[Message], tuple[Sequence[tuple[str, str]], Shape]]


@contextmanager
def served(answer: Answering) -> Iterator[tuple[int, list[Message]]]:
    """A server's port, and the requests that have reached it so far, also those that were not sent to their end."""
    seen: list[Message] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connected: socket.socket) -> None:
        with connected, suppress(OSError, h2.exceptions.ProtocolError):
            wire = Wire(connected, client=False)
            known: set[int] = set()
            while True:
                ended = wire.receive()
                fresh = [stream for stream, message in wire.messages.items() if message.headers and stream not in known]
                seen.extend(wire.messages[stream] for stream in fresh)
                known.update(fresh)
                for stream in ended:
                    if wire.messages[stream].ended:
                        headers, shape = answer(wire.messages[stream])
                        wire.send(stream, headers, shape)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], seen
    finally:
        listener.close()
