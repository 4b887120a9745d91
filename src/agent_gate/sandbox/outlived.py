"""Commands that must not outlive the gate, though nobody inside notices in time that it was killed.

bubblewrap asks the kernel to end it with its parent only after it has begun, and does not look whether that is still
there: without this, a gate killed at that moment leaves a command running that nobody bounds any more.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from agent_gate.sandbox.survivor import HOLDS, LETS_GO

_PROGRAM = str(Path(__file__).with_name("survivor.py"))


class Outlived:
    """The gate's end of the process that ends them; one for each process of the gate, from its first command on."""

    def __init__(self) -> None:
        self._survivor: socket.socket | None = None
        self._started_by = 0

    def hold(self, group: int, handle: int) -> None:
        """From now on this one ends with the gate. OSError where that cannot be made sure of: then do not begin."""
        told = [HOLDS + str(group).encode()]
        try:
            socket.send_fds(self._running(), told, [handle])
        except ConnectionError:  # somebody has ended it
            self.close()
            socket.send_fds(self._running(), told, [handle])

    def let_go(self, group: int) -> None:
        if self._survivor is not None:
            with suppress(OSError):
                self._survivor.send(LETS_GO + str(group).encode())

    def close(self) -> None:
        """End what is held still."""
        if self._survivor is not None:
            self._survivor.close()
            self._survivor = None

    def _running(self) -> socket.socket:
        """A process that was forked off the gate needs one of its own, and keeps the gate's from noticing its end."""
        if self._started_by != os.getpid():
            self.close()
        if self._survivor is None:
            self._survivor, self._started_by = _start(), os.getpid()
        return self._survivor


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        # In a session of its own: a signal to the gate's group does not reach it. It holds none of the gate's streams.
        os.posix_spawn(
            sys.executable,
            (sys.executable, "-I", "-S", _PROGRAM),
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    return ours


OUTLIVED = Outlived()
atexit.register(OUTLIVED.close)
