"""Fronts that let a client in and hang up, at whichever moment: a home that cannot be reached, and nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop
from websockets.asyncio.server import ServerConnection

from agent_gate.config import HomeAssistantConfig
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.dialling import dial
from agent_gate.services.home_assistant.faults import Lost
from tests.scripted_home import TOKEN, Pauses, ScriptedHome, a_client

ATTEMPTS = 100
NO_LINGERING = struct.pack("ii", 1, 0)
"""The connection is reset when it is closed."""
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
STAGES = ("upgraded", "auth_required", "auth", "auth_ok", "supported_features")


@contextmanager
def a_front(*, resets: bool) -> Iterator[str]:
    """A thread of its own, so that it may be faster than the client: where it listens."""
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        while True:
            connection, _ = listener.accept()
            if connection.getpeername() == last.getsockname():
                connection.close()
                return
            if resets:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
            connection.close()

    thread = threading.Thread(target=hang_up)
    last = socket.socket()
    last.bind(("127.0.0.1", 0))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        last.connect(listener.getsockname())
        thread.join()
        last.close()
        listener.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("resets", [False, True], ids=["closes", "resets"])
def test_a_front_that_accepts_and_hangs_up_is_a_home_out_of_reach_at_every_attempt(loop: str, resets: bool) -> None:
    unhandled: list[dict[str, Any]] = []

    async def knock(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        address = Address.of(HomeAssistantConfig(url))
        for _ in range(ATTEMPTS):
            with pytest.raises(Lost) as raised:
                await dial(address, TOKEN)
            assert not raised.value.sent

    with a_front(resets=resets) as url, asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(knock(url))
    assert unhandled == []


@pytest.mark.parametrize("breaks", [False, True], ids=["closes", "breaks"])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_server_that_hangs_up_in_the_middle_of_its_greeting_is_tried_again_without_an_error(
    stage: str, breaks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    home, pauses = ScriptedHome(), Pauses()

    async def talk(connection: ServerConnection) -> None:
        home.attempts += 1
        for at in STAGES:
            if at in ("auth_required", "auth_ok"):
                await connection.send(json.dumps({"type": at, "ha_version": "2024.3.3"}))
            elif at != "upgraded":
                await connection.recv()
            if at == stage:
                break
        if breaks:
            connection.transport.abort()

    home.talk = talk  # type: ignore[method-assign]
    async with home.serving(), a_client(home.url, pause=pauses) as client:
        for seconds in (0.8, 1.6, 3.2):
            await pauses.end(seconds)
        assert client.trouble.startswith("home assistant cannot be reached: ")
    assert home.attempts >= 3
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
