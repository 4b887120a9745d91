"""A process and all that came of it: counted, measured, and ended together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KILL_ROUNDS_MAX = 200
_KILL_PAUSE_S = 0.01


class Size(NamedTuple):
    processes: int
    memory_bytes: int
    written_bytes: int


def descendants(pid: int) -> Iterator[int]:
    """Every process below this one, parents first; a child that loses its parent is found where it was adopted."""
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def measure(pid: int, processes_max: int) -> Size:
    """Measure what the processes below this one take; stop counting where there are too many."""
    processes = memory = written = 0
    for child in descendants(pid):
        processes += 1
        if processes > processes_max:
            break
        with suppress(OSError, ValueError, IndexError):
            memory += int(Path(f"/proc/{child}/statm").read_text().split()[1]) * _PAGE_BYTES
            written += _written(child)
    return Size(processes, memory, written)


def _written(pid: int) -> int:
    """Bytes that a process, and those of its children that have ended, sent to disks."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.partition(":")[2])
    return 0


def kill(pid: int) -> None:
    """End all processes below this one, however fast they multiply; whoever started `pid` still has to reap it."""
    for _ in range(_KILL_ROUNDS_MAX):
        alive = [child for child in descendants(pid) if not _is_over(child)]
        if not alive:
            return
        # First stopped, so that none of them can start another while the rest is ended.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for child in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, number)
        time.sleep(_KILL_PAUSE_S)


def _is_over(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in ("Z", "X")
