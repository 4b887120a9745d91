"""A process that outlives a killed gate for a moment, and ends the commands that were under way.

Run as a program by its path, so it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress

MESSAGE_BYTES_MAX = 32
HOLDS, LETS_GO = b"+", b"-"


def hold(gate: socket.socket) -> dict[int, list[int]]:
    """Follow what the gate has under way until it is gone; what is left then: process groups, and handles of each."""
    held: dict[int, list[int]] = {}
    while True:
        told, handles, _, _ = socket.recv_fds(gate, MESSAGE_BYTES_MAX, 1)
        if not told:
            return held
        group = int(told[1:])
        if told[:1] == HOLDS:
            held.setdefault(group, []).extend(handles)
        else:
            for handle in held.pop(group, ()):
                os.close(handle)


def end(held: dict[int, list[int]]) -> None:
    """By its group what has not left it yet, by its handle what has."""
    for group, handles in held.items():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        for handle in handles:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)


if __name__ == "__main__":
    os.chdir("/")
    with socket.socket(fileno=sys.stdin.fileno()) as told_by_gate:
        end(hold(told_by_gate))
