"""A warm process that forks programs on demand: starting one costs milliseconds, and killing it harms nobody else.

The tests talk to it over a socket: `start` comes with the write end of a pipe on which the program tells what happens.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
PROGRAMS = "tests.faults.programs"


class Child:
    """One program that was started, as its parent sees it."""

    def __init__(self, nursery: Nursery, pid: int, pipe: int) -> None:
        self._nursery, self.pid, self._pipe = nursery, pid, pipe
        self._heard = b""
        self._ended = False

    def fileno(self) -> int:
        return self._pipe

    def told(self, wait_s: float = 0) -> list[Any]:
        """What it has told since the last time; waits for something if asked to."""
        while not self._ended and select.select([self._pipe], [], [], wait_s)[0]:
            chunk = os.read(self._pipe, 1 << 20)
            self._ended = not chunk
            self._heard += chunk
            wait_s = 0
        *lines, self._heard = self._heard.split(b"\n")
        return [json.loads(line) for line in lines]

    def kill(self) -> list[Any]:
        """Gone for good when this returns; what it still told."""
        self._nursery.ask("kill", self.pid)
        return self._last_words()

    def wait(self) -> tuple[int, list[Any]]:
        """Its exit code (negative: the signal that ended it), and what it told."""
        told = self._last_words()
        return int(self._nursery.ask("wait", self.pid)), told

    def _last_words(self) -> list[Any]:
        told = self.told(WAIT_S)
        while not self._ended:
            assert select.select([self._pipe], [], [], WAIT_S)[0], f"program {self.pid} is silent for {WAIT_S:g} s"
            told += self.told()
        os.close(self._pipe)
        return told


class Nursery:
    def __init__(self, preload: Path | None = None, wrap: Sequence[str] = ()) -> None:
        """`preload`: a library that comes between its programs and the system; `wrap`: a command that starts it."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(os.environ)
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        with theirs:
            self._process = subprocess.Popen(
                [*wrap, sys.executable, "-m", "tests.faults.nursery", str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        assert self._answer() == "ready"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait(WAIT_S)

    def start(self, program: str, **arguments: Any) -> Child:
        """Run a coroutine in a fork: one of `tests.faults.programs`, or `module:name`."""
        mine, theirs = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(["start", program, arguments]).encode()], [theirs])
        finally:
            os.close(theirs)
        return Child(self, int(self._answer()), mine)

    def run(self, program: str, **arguments: Any) -> list[Any]:
        """A program that must end by itself, and what it told."""
        code, told = self.start(program, **arguments).wait()
        assert code == 0, (code, told)
        return told

    def ask(self, verb: str, pid: int) -> Any:
        self._socket.send(json.dumps([verb, pid]).encode())
        return self._answer()

    def _answer(self) -> Any:
        self._socket.settimeout(WAIT_S)
        return json.loads(self._socket.recv(65536))


def _serve(channel: socket.socket) -> None:
    children: set[int] = set()
    channel.send(json.dumps("ready").encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 1)
        if not message:
            break
        match json.loads(message):
            case ["start", program, arguments]:
                children.add(pid := _fork(channel, program, arguments, descriptors[0]))
                answer: object = pid
            case ["kill", pid]:
                os.kill(pid, signal.SIGKILL)
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                children.discard(pid)
            case ["wait", pid]:
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                children.discard(pid)
            case other:
                raise AssertionError(other)
        channel.send(json.dumps(answer).encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _fork(channel: socket.socket, program: str, arguments: dict[str, Any], pipe: int) -> int:
    pid = os.fork()
    if pid:
        os.close(pipe)
        return pid
    code = 1
    try:
        channel.close()
        importlib.import_module(PROGRAMS).listen_at(pipe)
        module, _, name = program.rpartition(":")
        asyncio.run(getattr(importlib.import_module(module or PROGRAMS), name)(**arguments))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _warm_up() -> None:
    """What the forks would otherwise each import."""
    for name in ("alembic.command", "sqlalchemy.dialects.sqlite", PROGRAMS):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page of the parent


if __name__ == "__main__":
    _warm_up()
    _serve(socket.socket(fileno=int(sys.argv[1])))
