"""The simulated home behind a socket, in the caller's event loop, through as many restarts as it is asked for."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from agent_gate.simulated_home import commands, rest
from agent_gate.simulated_home.home import SimulatedHome
from agent_gate.simulated_home.session import Session

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Of what a client may send."""
BIND_TRIES = 50
ANSWER_S = 0.02
"""From the call that asks for a restart, so that it is still answered by REST, to the end."""
_TURNS_TO_MEET = 3
"""Of the event loop: asyncio forgets whom it let in right before a server is closed, and they would hang for good."""
GOODBYE_S = 1.0
"""For what is under way when the server ends."""


@dataclass(frozen=True, slots=True)
class Running:
    home: SimulatedHome
    url: str
    """With the path prefix, if there is one."""

    @property
    def token(self) -> str:
        return self.home.token

    @property
    def limited_token(self) -> str:
        return self.home.limited.token

    @property
    def readonly_token(self) -> str:
        return self.home.readonly.token

    @property
    def ws_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/api/websocket"


class _Server(uvicorn.Server):
    """Uvicorn on a socket that is already bound; signals are left to who starts it."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            ws="websockets-sansio",
            ws_max_size=FRAME_BYTES_MAX,
            ws_per_message_deflate=False,
            ws_ping_interval=55.0,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls
        super().__init__(config)
        self._over = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Without a look at the clock ten times a second, and so at an end at once."""
        await self._over.wait()

    def end(self) -> None:
        self.should_exit = True
        self._over.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody new is let in, and who is still there is not waited for."""
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for listener in server.sockets:
                loop.remove_reader(listener.fileno())
        for _ in range(_TURNS_TO_MEET):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        self.cut()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=GOODBYE_S)
        for listener in sockets or ():
            listener.close()

    def cut(self, peer: tuple[str, int] | None = None) -> None:
        """Break the connection with this peer, or all of them."""
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and (peer is None or transport.get_extra_info("peername")[:2] == peer):
                transport.abort()


@asynccontextmanager
async def simulated_home(
    home: SimulatedHome | None = None, *, port: int = 0, tls: ssl.SSLContext | None = None, prefix: str = ""
) -> AsyncIterator[Running]:
    """Serve a home on loopback for as long as the block runs."""
    home = home or SimulatedHome()
    lives = _Lives(home, _listening(port), tls, prefix)
    task = asyncio.create_task(lives.run())
    try:
        await _first(lives.begun, task)
        yield Running(home, f"{'https' if tls else 'http'}://127.0.0.1:{lives.port}{prefix}")
    finally:
        lives.ended.set()
        home.finish_start()
        home.release_answers()
        home.speak_again()
        await asyncio.wait({task})
        await home.close()
    task.result()


class _Lives:
    """One life of a server after the other, all on the same port."""

    def __init__(self, home: SimulatedHome, listener: socket.socket, tls: ssl.SSLContext | None, prefix: str) -> None:
        self._home, self._listener, self._tls, self._prefix = home, listener, tls, prefix
        self.port: int = listener.getsockname()[1]
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        ended = asyncio.create_task(self.ended.wait())
        try:
            while await self._one(ended):
                await asyncio.sleep(self._home.life.down_s)
                self._listener = await _bound(self.port)
        finally:
            ended.cancel()

    async def _one(self, ended: asyncio.Task[Any]) -> bool:
        """Until it is asked to restart or to stop, or until the end; whether another one follows."""
        life = self._home.life
        async with self._served():
            if self.begun.is_set():
                await life.begin_again()
            self.begun.set()
            await _first(life.asked_to_restart, ended)
            if ended.done():
                return False
            await asyncio.sleep(ANSWER_S)
            await life.end()
        return life.comes_back

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        async def talk(web_socket: WebSocket) -> None:
            client = web_socket.client
            peer = (client.host, client.port) if client else None
            await Session(self._home, web_socket, lambda: server.cut(peer)).serve(commands.take)

        with self._listener:
            server = _Server(_app(self._home, talk, self._prefix), self._tls)
            task = asyncio.create_task(server.serve([self._listener]))
            try:
                while not server.started:
                    await asyncio.sleep(0.001)
                    if task.done():
                        task.result()
                yield
            finally:
                server.end()
                await asyncio.wait({task})
        task.result()


def _app(home: SimulatedHome, talk: Callable[[WebSocket], Awaitable[None]], prefix: str) -> ASGIApp:
    own = [*rest.routes(home), WebSocketRoute("/api/websocket", talk)]
    return Starlette(routes=[Mount(prefix, routes=own)] if prefix else own, exception_handlers={404: _unknown})


async def _unknown(_request: Request, _error: Exception) -> Response:
    return rest.bare(404)


async def _first(event: asyncio.Event, task: asyncio.Task[Any]) -> None:
    """Until the event is set, or the task is done; what the task raised is raised here."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if task.done():
        task.result()


async def _bound(port: int) -> socket.socket:
    """Somebody else may have taken the port for a moment."""
    for _ in range(BIND_TRIES):
        with suppress(OSError):
            return _listening(port)
        await asyncio.sleep(0.02)
    return _listening(port)


def _listening(port: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", port))
    # asyncio does so itself, but not for sockets that were made without naming their protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
