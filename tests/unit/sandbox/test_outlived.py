"""The process that ends commands when the gate is killed: what it holds, what it lets go of, and its own end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess

import pytest

from agent_gate.sandbox import outlived, survivor
from agent_gate.sandbox.outlived import Outlived


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The far ends of what would be survivors."""
    found: list[socket.socket] = []

    def start() -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found.append(theirs)
        return ours

    monkeypatch.setattr(outlived, "_start", start)
    return found


def test_what_is_let_go_of_is_not_ended_with_the_gate(ends: list[socket.socket]) -> None:
    gate, handle = Outlived(), os.pidfd_open(os.getpid())
    gate.hold(11, handle)
    gate.hold(12, handle)
    gate.hold(12, handle)
    gate.let_go(11)
    os.close(handle)
    gate.close()
    with ends[0] as told:
        held = survivor.hold(told)
    assert {group: len(handles) for group, handles in held.items()} == {12: 2}
    for number in held[12]:
        os.close(number)


def test_a_survivor_that_somebody_ended_is_replaced_before_the_next_command(ends: list[socket.socket]) -> None:
    gate, handle = Outlived(), os.pidfd_open(os.getpid())
    gate.hold(11, handle)
    ends[0].close()
    gate.let_go(11)
    gate.hold(12, handle)
    os.close(handle)
    gate.close()
    with ends[1] as told:
        held = survivor.hold(told)
    assert list(held) == [12]
    os.close(held[12][0])


def test_a_group_and_what_has_left_it_are_ended() -> None:
    words = ["sleep", "600"]
    with subprocess.Popen(words, process_group=0) as stays, subprocess.Popen(words, process_group=0) as left:
        handle = os.pidfd_open(left.pid)
        survivor.end({stays.pid: [handle]})
        assert (stays.wait(), left.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
    os.close(handle)


def test_what_has_ended_already_is_no_trouble() -> None:
    with subprocess.Popen(["true"], process_group=0) as ended:
        handle = os.pidfd_open(ended.pid)
    survivor.end({ended.pid: [handle]})
    os.close(handle)
