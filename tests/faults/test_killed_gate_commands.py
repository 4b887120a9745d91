"""A gate that is killed while it starts a command leaves nothing of it behind, whichever moment that was."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.gates import until
from tests.unit.sandbox.commands import sandboxes

pytestmark = pytest.mark.skipif("bubblewrap" not in sandboxes(), reason="bubblewrap does not work here")

GATE = """
import asyncio, os, signal, sys
from agent_gate.sandbox import running
from agent_gate.sandbox.launch import Launch
from tests.unit.sandbox.commands import finished, sandboxes

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_waiting(*_):
    die()

def begin_and_die(self, begin=Launch.begin):
    begin(self)
    die()

sandbox = sandboxes()["bubblewrap"]  # which tries commands of its own
match sys.argv[1]:
    case "started":
        running._Running._told_pid = die_waiting
    case "told of its first process":
        running.limit = die
    case "ready to begin":
        Launch.begin = die
    case "begun":
        Launch.begin = begin_and_die
asyncio.run(finished(sandbox, ["sleep", sys.argv[2]], timeout_s=600, starts_programs=False))
"""


@pytest.mark.parametrize("moment", ["started", "told of its first process", "ready to begin", "begun"])
async def test_a_gate_that_is_killed_leaves_no_command_behind(moment: str) -> None:
    root, seconds = Path(__file__).parents[2], f"3600.{uuid4().int}"
    words = [sys.executable, "-c", GATE, moment, seconds]
    ended = await asyncio.to_thread(subprocess.run, words, cwd=root, capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    try:
        await until(lambda: not _left(seconds))
    finally:
        for pid in _left(seconds):
            os.kill(pid, signal.SIGKILL)


def _left(word: str) -> list[int]:
    """Processes that have this word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if word.encode() in words:
            found.append(int(path.parent.name))
    return found
