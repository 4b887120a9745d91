"""Sockets as uvicorn serves them: bounds on what it leaves open, and a short cut for plain messages (decision 0013)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import OPEN

from agent_gate.doors.websocket import LINE
from agent_gate.hosts.server.frames import are_whole, text_frame, text_in
from agent_gate.model.bounds import (
    GOODBYE_S,
    HANDSHAKE_TIMEOUT_S,
    HEAD_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    PING_INTERVAL_S,
    PING_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    STALLED_S,
    STRANGERS_MESSAGE_BYTES_MAX,
)


@dataclass(frozen=True, slots=True)
class SocketBounds:
    """Seconds that a peer has, for each thing that it may keep others waiting with."""

    handshake_s: float = HANDSHAKE_TIMEOUT_S
    request_s: float = REQUEST_TIMEOUT_S
    goodbye_s: float = GOODBYE_S
    stalled_s: float = STALLED_S
    ping_interval_s: float = PING_INTERVAL_S
    ping_timeout_s: float = PING_TIMEOUT_S


class BoundedConfig(uvicorn.Config):
    """Uvicorn's settings, which it hands to every protocol, with our bounds among them."""

    bounds = SocketBounds()


class _Stall:
    """Ends a connection whose peer reads nothing for too long: what waits for it is memory."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        self.end()
        self._timer = asyncio.get_running_loop().call_later(self._after_s, transport.abort)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WebSocket(WebSocketsSansIOProtocol):
    config: BoundedConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stall = _Stall(self.config.bounds.stalled_s)
        self._take: Callable[[bytes], bool] | None = None
        self._is_between_frames = False
        self.close_timeout = self.config.bounds.goodbye_s

    def handle_connect(self, event: Request) -> None:
        """Give little room to who has not said who they are, until the door says that they have."""
        super().handle_connect(event)
        if not self.close_sent:
            self.conn.max_message_size = STRANGERS_MESSAGE_BYTES_MAX
            self.scope["extensions"][LINE] = {"line": self}
            self._is_between_frames = True

    def known(self, take: Callable[[bytes], bool]) -> None:
        self.conn.max_message_size = MESSAGE_BYTES_MAX
        self._take = take

    def say(self, text: bytes) -> bool:
        if self.disconnected or self.conn.state is not OPEN or not self.writable.is_set():
            return False
        self.transport.write(text_frame(text))
        return True

    def data_received(self, data: bytes) -> None:
        """A text in one piece goes straight to the door, unless messages wait already or answers are not being read.

        Everything else is the library's, and so is all that follows data which did not end with a frame.
        """
        if self._is_between_frames:
            text = text_in(data)
            if text is not None and self._take is not None and self._is_idle and self._take(text):
                return
            self._is_between_frames = text is not None or are_whole(data)
        try:
            super().data_received(data)
        except InvalidState:  # uvicorn closes what has just said goodbye, for text before that which is not UTF-8
            self.transport.abort()

    def handle_text(self, event: Frame) -> None:
        """Take what the library found in its frames the same way."""
        if not (event.fin and self._take is not None and self._is_idle and self._take(bytes(event.data))):
            super().handle_text(event)

    @property
    def _is_idle(self) -> bool:
        """Tell if nothing is in the way: no message that waits or is still to be completed, no answer, no goodbye."""
        conn = self.conn
        return not self.read_paused and conn.current_size is None and conn.state is OPEN and self.writable.is_set()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.end()
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        """A peer that answers no ping is not waited for until it has read the goodbye."""
        super().keepalive_timeout()
        self.transport.abort()


class Http(HttpToolsProtocol):
    """A request's head and body must come in time, and its head within bounds."""

    config: BoundedConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounds = self.config.bounds
        self._stall = _Stall(self._bounds.stalled_s)
        self._due: asyncio.TimerHandle | None = None
        self._in_head, self._head_bytes = True, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_within(self._bounds.handshake_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_within(None)
        self._stall.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response(f"The head of the request is larger than {HEAD_BYTES_MAX} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._expect_within(self._bounds.handshake_s)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._expect_within(self._bounds.request_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._expect_within(None)
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect_within(None)
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()

    def _expect_within(self, seconds: float | None) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def _is_of_interest(record: logging.LogRecord) -> bool:
    """A peer's text that is not UTF-8 is its own mistake, and no reason for a traceback of ours."""
    return not str(record.msg).startswith("Invalid UTF-8")


class Server(uvicorn.Server):
    """Uvicorn on sockets that are already bound; signals are left to who starts it."""

    config: BoundedConfig

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None = None, bounds: SocketBounds | None = None) -> None:
        bounds = bounds or SocketBounds()
        config = BoundedConfig(
            app,
            http=Http,
            ws=WebSocket,
            ws_max_size=MESSAGE_BYTES_MAX,
            ws_ping_interval=bounds.ping_interval_s,
            ws_ping_timeout=bounds.ping_timeout_s,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="error",  # below that uvicorn logs URLs with their queries
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        config.bounds = bounds
        super().__init__(config)
        self._tls = tls
        logging.getLogger("uvicorn.error").addFilter(_is_of_interest)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """As uvicorn does it, but a TLS handshake has its own limit of time."""
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return Http(config=self.config, server_state=self.server_state, app_state={}, _loop=loop)

        handshake_s = self.config.bounds.handshake_s if self._tls else None
        self.servers = [
            await loop.create_server(
                protocol, sock=one, backlog=self.config.backlog, ssl=self._tls, ssl_handshake_timeout=handshake_s
            )
            for one in sockets or []
        ]
        self.started = True

    def stop_listening(self) -> None:
        for server in self.servers:
            server.close()
